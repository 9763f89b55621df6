"""One writer per backend and target: a request in, exactly what to type out.

The module itself is callable: `warmset.launch("llama-3.1-8b", tier="230GiB")` is `warmset.api.launch(...)`.

>>> from warmset.launch import LaunchRequest, write
>>> from warmset.servers import engine
>>> write(LaunchRequest(tier_bytes=230 * 2**30, engine=engine("vllm@0.16"), model="org/model")).command
'vllm serve org/model --kv-offloading-size 230'
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warmset.launch.launch import Launch, write
from warmset.launch.parts import Conversion
from warmset.launch.request import TARGETS, LaunchRequest
from warmset.plan.request import BACKENDS

__all__ = ["BACKENDS", "TARGETS", "Conversion", "Launch", "LaunchRequest", "write"]

if not TYPE_CHECKING:

    class _CallableRoom(ModuleType):
        """A room whose name is also the question that it answers."""

        def __call__(self, *args: Any, **kwargs: Any) -> Launch:
            from importlib import import_module

            return import_module("warmset.api").launch(*args, **kwargs)

    sys.modules[__name__].__class__ = _CallableRoom
