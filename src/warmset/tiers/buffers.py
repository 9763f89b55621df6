"""Page-aligned buffers that are used again: direct file I/O needs them, and fresh pages cost faults."""

import ctypes
import mmap
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import PAGESIZE

# Of small buffers, as many: they are not what takes time.
_MAX_ROTATED = 32
_HUGE_PAGE_BYTES = 2 << 20
# Some 50 us. Where many threads want the GIL, it takes as long to get it back.
_COPIED_WITH_GIL_BYTES = 512 << 10


def whole_pages(size_bytes: int) -> int:
    """`size_bytes` rounded up to whole pages, at least one."""
    return max(1, -(-size_bytes // PAGESIZE)) * PAGESIZE


class BufferPool:
    """Lends page-aligned buffers, that first which has been idle longest, and keeps at most `keep_bytes` of idle ones.

    It takes turns among `rotate_bytes` of buffers, though fewer would do. A hypervisor copies what a virtual disk has
    read, on another core; into memory that this core had just looked at, that was measured to take half as long again.
    These buffers lie side by side, in huge pages where the system gives any: a device is told of every piece of
    memory that is not next to the one before, and 129 pieces were measured to take twice as long as one.
    """

    def __init__(self, keep_bytes: int = 256 << 20, rotate_bytes: int = 16 << 20) -> None:
        self._keep_bytes = keep_bytes
        self._rotate_bytes = rotate_bytes
        self._begin()

    def _begin(self) -> None:
        self._idle: dict[int, deque[memoryview]] = {}
        self._made: dict[int, int] = {}
        self._idle_bytes = 0
        self._lock = threading.Lock()
        self._process = os.getpid()

    @contextmanager
    def lend(self, size_bytes: int) -> Iterator[memoryview]:
        """A writable buffer of `size_bytes` rounded up to whole pages; its content is arbitrary."""
        buffer = self.take(size_bytes)
        view = buffer[:]
        try:
            yield view
        finally:
            view.release()
            self.give_back(buffer)

    def take(self, size_bytes: int) -> memoryview:
        """As `lend`, until it is given back."""
        size = whole_pages(size_bytes)
        if self._process != os.getpid():
            self._begin()  # A child has none of its parent's buffers, see below.
        with self._lock:
            idle = self._idle.setdefault(size, deque())
            made = self._made.get(size, 0)
            missing = min(_MAX_ROTATED, self._rotate_bytes // size) - made
            if missing > 0 or not idle:
                # No more than may be kept, besides the one that is taken at once.
                room = 1 + max(0, self._keep_bytes - self._idle_bytes) // size
                fresh = _side_by_side(size, max(1, min(missing, room)))
                self._made[size] = made + len(fresh)
                self._idle_bytes += size * len(fresh)
                idle.extendleft(fresh)
            self._idle_bytes -= size
            return idle.popleft()

    def give_back(self, buffer: memoryview) -> None:
        """Let others have what was taken."""
        size = buffer.nbytes
        with self._lock:
            if self._idle_bytes + size <= self._keep_bytes:
                self._idle[size].append(buffer)
                self._idle_bytes += size
            else:
                # Not released: views of it that are still about would forbid that. Its memory goes with the last view.
                self._made[size] -= 1


def _side_by_side(size: int, count: int) -> list[memoryview]:
    """`count` new buffers of `size` bytes in one piece of address space, which is freed with the last of them."""
    huge = size * count // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
    # Private, as shared memory has huge pages only where an administrator asked for them.
    space = mmap.mmap(
        -1, size * count + (_HUGE_PAGE_BYTES if huge else 0), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    start = -ctypes.addressof(ctypes.c_char.from_buffer(space)) % _HUGE_PAGE_BYTES if huge else 0
    if huge:
        with suppress(OSError):  # a kernel without huge pages
            space.madvise(mmap.MADV_HUGEPAGE, start, huge)
    # A device may be writing to it when a process forks: then one of the two would go on with a stale copy (open(2)).
    space.madvise(mmap.MADV_DONTFORK)
    view = memoryview(space)
    return [view[start + i * size : start + (i + 1) * size] for i in range(count)]


def copy_bytes(target: memoryview, source: memoryview) -> None:
    """Copy contiguous bytes of equal length, without the GIL where there are many: numpy does that."""
    if target.nbytes <= _COPIED_WITH_GIL_BYTES:
        target[:] = source
        return
    import numpy as np

    np.copyto(np.frombuffer(target, dtype=np.uint8), np.frombuffer(source, dtype=np.uint8))
