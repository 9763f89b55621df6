"""Traffic as arrays: the Trace record, its readers, writers and generators."""

from warmset.traces.load import Reading, load, read, stream
from warmset.traces.options import ReadOptions
from warmset.traces.record import Trace

__all__ = ["ReadOptions", "Reading", "Trace", "load", "read", "stream"]
