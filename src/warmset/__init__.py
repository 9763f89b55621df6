"""warmset makes KV-cache offloading on a self-hosted LLM server a measured decision.

>>> import warmset
>>> warmset.footprint(layers=32, kv_heads=8, head_dim=128).bytes_per_token
Fraction(131072, 1)

`plan`, `footprint` and `launch` answer the questions of the command line; see `warmset.api`.
"""

# As type checkers read it: importing `typing` would take longer than all the rest of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from warmset.api import footprint, launch, launch_for, plan

__version__ = "0.1.0"
__all__ = ["__version__", "footprint", "launch", "launch_for", "plan"]


def __getattr__(name: str) -> "Any":
    """Import on first use: the command line starts without them."""
    from importlib import import_module

    if name in ("plan", "launch"):
        return import_module(f"warmset.{name}")
    if name in ("footprint", "launch_for"):
        return getattr(import_module("warmset.api"), name)
    raise AttributeError(f"module `warmset` has no attribute `{name}`")
