"""Sessions: how many are warm at once in a trace and how long they are, and how many fit a room."""

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from warmset.traces.record import Trace


class WarmSessions(NamedTuple):
    """Sessions under way at the moment at which they hold the most tokens; `context_tokens` is their mean length."""

    sessions: int
    context_tokens: int


def sessions_in(room: Fraction | int, first: Fraction | int, further: Fraction | int, asked: int) -> int:
    """How many sessions fit `room` where the first takes `first` and each one more, which shares its prefix, `further`.

    Sessions that share all of their context take no more room: then the `asked` ones fit.
    """
    if not first or room < first:
        return 0
    return 1 + int((room - first) // further) if further > 0 else asked


def warm_sessions(trace: "Trace") -> WarmSessions:
    """The largest warm set of `trace`, as sessions × context.

    A session is under way from its first request to its last, at the length of its longest prompt and reply.
    Order decides, not time, so traces without times count too; sessions that are not named are told from prefixes.
    """
    import numpy as np

    from warmset.traces.info import infer_sessions

    known = trace.session_ids is not None and bool(np.all(trace.session_ids >= 0))
    labels = trace.session_ids if known and trace.session_ids is not None else infer_sessions(trace)
    _, first, session = np.unique(labels, return_index=True, return_inverse=True)
    last = np.zeros(len(first), np.int64)
    longest = np.zeros(len(first), np.int64)
    np.maximum.at(last, session, np.arange(trace.requests))
    np.maximum.at(longest, session, trace.input_tokens + np.maximum(trace.output_tokens, 0))
    under_way = np.zeros((2, trace.requests + 1), np.int64)
    for row, weight in enumerate((np.ones_like(longest), longest)):
        np.add.at(under_way[row], first, weight)
        np.subtract.at(under_way[row], last + 1, weight)
    sessions, tokens = under_way.cumsum(axis=1)
    peak = int(np.argmax(tokens))
    return WarmSessions(int(sessions[peak]), -(-int(tokens[peak]) // int(sessions[peak])))
