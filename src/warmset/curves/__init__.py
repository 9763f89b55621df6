"""Hit rate against capacity, from a trace."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmset.curves.chunks import chunked_curve, in_chunks
    from warmset.curves.exact import lru_curve
    from warmset.curves.policies import POLICIES, simulate
    from warmset.curves.record import Curve, Sampling
    from warmset.curves.sampled import sampled_curve
    from warmset.curves.sizing import Size, knee, size_for
    from warmset.curves.study import Question, Study
    from warmset.curves.tiers import TierHits, two_tiers

_HOMES = {
    "Curve": "record",
    "POLICIES": "policies",
    "Question": "study",
    "Sampling": "record",
    "Size": "sizing",
    "Study": "study",
    "TierHits": "tiers",
    "chunked_curve": "chunks",
    "in_chunks": "chunks",
    "knee": "sizing",
    "lru_curve": "exact",
    "sampled_curve": "sampled",
    "simulate": "policies",
    "size_for": "sizing",
    "two_tiers": "tiers",
}
__all__ = [
    "POLICIES",
    "Curve",
    "Question",
    "Sampling",
    "Size",
    "Study",
    "TierHits",
    "chunked_curve",
    "in_chunks",
    "knee",
    "lru_curve",
    "sampled_curve",
    "simulate",
    "size_for",
    "two_tiers",
]


def __getattr__(name: str) -> Any:
    """Import on first use: a compiler is not loaded for whoever only names this room."""
    if name not in _HOMES:
        raise AttributeError(f"module `warmset.curves` has no attribute `{name}`")
    return getattr(importlib.import_module(f"warmset.curves.{_HOMES[name]}"), name)
