"""Run by every Python process that has this directory on PYTHONPATH: the processes that vLLM starts.

vLLM inspects models and runs engines in interpreters of their own, which need the same repairs as the
server itself. The environment's own sitecustomize, which this one hides, runs first.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder

_HERE = os.path.dirname(os.path.abspath(__file__))
_HIDDEN = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != _HERE])
if _HIDDEN is not None and _HIDDEN.loader is not None:
    _HIDDEN.loader.exec_module(importlib.util.module_from_spec(_HIDDEN))

import warmset.vllm.startup  # noqa: E402, F401
