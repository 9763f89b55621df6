"""Page-aligned buffers that are used again: direct file I/O needs them, and fresh pages cost faults."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import PAGESIZE, mmap

# Of small buffers, as many: they are not what takes time.
_MAX_ROTATED = 32


def whole_pages(size_bytes: int) -> int:
    """`size_bytes` rounded up to whole pages, at least one."""
    return max(1, -(-size_bytes // PAGESIZE)) * PAGESIZE


class BufferPool:
    """Lends page-aligned buffers, that first which has been idle longest, and keeps at most `keep_bytes` of idle ones.

    It takes turns among `rotate_bytes` of buffers, though fewer would do. A hypervisor copies what a virtual disk has
    read, on another core; into memory that this core had just looked at, that was measured to take half as long again.
    """

    def __init__(self, keep_bytes: int = 256 << 20, rotate_bytes: int = 16 << 20) -> None:
        self._idle: dict[int, deque[mmap]] = {}
        self._made: dict[int, int] = {}
        self._idle_bytes = 0
        self._keep_bytes = keep_bytes
        self._rotate_bytes = rotate_bytes
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, size_bytes: int) -> Iterator[memoryview]:
        """A writable buffer of `size_bytes` rounded up to whole pages; its content is arbitrary."""
        size = whole_pages(size_bytes)
        pages = self._take(size) or mmap(-1, size)
        view = memoryview(pages)
        try:
            yield view
        finally:
            view.release()
            self._give_back(size, pages)

    def _take(self, size: int) -> mmap | None:
        with self._lock:
            idle = self._idle.get(size)
            made = self._made.get(size, 0)
            if not idle or made < min(_MAX_ROTATED, self._rotate_bytes // size):
                self._made[size] = made + 1
                return None
            self._idle_bytes -= size
            return idle.popleft()

    def _give_back(self, size: int, pages: mmap) -> None:
        with self._lock:
            if self._idle_bytes + size <= self._keep_bytes:
                self._idle.setdefault(size, deque()).append(pages)
                self._idle_bytes += size
            else:
                # Not closed: views of it that are still about would forbid that. It goes when the last of them does.
                self._made[size] -= 1


def copy_bytes(target: memoryview, source: memoryview) -> None:
    """Copy contiguous bytes of equal length; numpy does it without the GIL, a memoryview assignment would not."""
    import numpy as np

    np.copyto(np.frombuffer(target, dtype=np.uint8), np.frombuffer(source, dtype=np.uint8))
