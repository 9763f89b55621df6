"""Size, decide, predict: one request in, one `Plan` out.

The module itself is callable: `warmset.plan("llama-3.1-8b", sessions=200, context_tokens=8192, gpu="h100-80gb")`
is `warmset.api.plan(...)`.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warmset.plan.make import make_plan
from warmset.plan.record import (
    BreakEven,
    Cost,
    Decision,
    Demand,
    Device,
    Fleet,
    Host,
    LowerTier,
    Plan,
    Tier,
)
from warmset.plan.request import BACKENDS, PlanRequest

__all__ = [
    "BACKENDS",
    "BreakEven",
    "Cost",
    "Decision",
    "Demand",
    "Device",
    "Fleet",
    "Host",
    "LowerTier",
    "Plan",
    "PlanRequest",
    "Tier",
    "make_plan",
]

if not TYPE_CHECKING:

    class _CallableRoom(ModuleType):
        """A room whose name is also the question that it answers."""

        def __call__(self, *args: Any, **kwargs: Any) -> Plan:
            from importlib import import_module

            return import_module("warmset.api").plan(*args, **kwargs)

    sys.modules[__name__].__class__ = _CallableRoom
