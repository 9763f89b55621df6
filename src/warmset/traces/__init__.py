"""Traffic as arrays: the Trace record, its readers, writers and generators."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmset.traces.options import ReadOptions
    from warmset.traces.reading import Reading, load, read, stream
    from warmset.traces.record import Trace

__all__ = ["ReadOptions", "Reading", "Trace", "load", "read", "stream"]

_HOMES = {"ReadOptions": "options", "Reading": "reading", "Trace": "record"}


def __getattr__(name: str) -> Any:
    """Import on first use: `recorder_format` runs inside a server and must not bring numpy along."""
    if name not in __all__:
        raise AttributeError(f"module `warmset.traces` has no attribute `{name}`")
    return getattr(importlib.import_module(f"warmset.traces.{_HOMES.get(name, 'reading')}"), name)
