"""Compiles the kernels of this room, once per machine where the disk allows it."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])

# What a kernel takes: numba compiles it for the element types that come.
Array = NDArray[Any]


def jit(function: F) -> F:
    """Compile `function` to machine code without the GIL, and keep the result on disk.

    The result is kept beside the package, or in the user's cache directory where the package is
    read-only (NUMBA_CACHE_DIR overrides both). Where neither can be written, the kernel is compiled
    once per process: slower to start, the same numbers.
    """
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # "no locator available": there is no place to write to
        return cast(F, numba.njit(nogil=True)(function))
