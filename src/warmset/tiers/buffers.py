"""Page-aligned buffers that are used again: direct file I/O needs them, and fresh pages cost faults."""

import ctypes
import mmap
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import PAGESIZE
from weakref import WeakSet

# Of small buffers, as many: they are not what takes time.
_MAX_ROTATED = 32
_HUGE_PAGE_BYTES = 2 << 20
# Of madvise(2); Python has no name for it.
_MADV_WIPEONFORK = 18
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
        _POOLS.add(self)

    def _begin(self) -> None:
        self._idle: dict[int, deque[memoryview]] = {}
        self._made: dict[int, int] = {}
        self._idle_bytes = 0
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, size_bytes: int) -> Iterator[memoryview]:
        """A writable buffer of `size_bytes` rounded up to whole pages; its content is arbitrary, afterwards too."""
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
        with self._lock:
            idle = self._idle.setdefault(size, deque())
            made = self._made.get(size, 0)
            # One more than is needed now is made only where it may be kept.
            missing = min(_MAX_ROTATED, self._rotate_bytes // size) - made
            missing = min(missing, (self._keep_bytes - self._idle_bytes) // size)
            if missing > 0 or not idle:
                fresh = _side_by_side(size, max(1, missing))
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
                self._idle.setdefault(size, deque()).append(buffer)
                self._idle_bytes += size
                return
            self._made[size] = self._made.get(size, 1) - 1
        _free(buffer)


def _side_by_side(size: int, count: int) -> list[memoryview]:
    """`count` new buffers of `size` bytes in one piece of address space, which goes with the last of them."""
    huge = size * count // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
    # Private, as shared memory has huge pages only where an administrator asked for them.
    space = mmap.mmap(
        -1, size * count + (_HUGE_PAGE_BYTES if huge else 0), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    start = -_address(space) % _HUGE_PAGE_BYTES if huge else 0
    if huge:
        with suppress(OSError):  # a kernel without huge pages
            space.madvise(mmap.MADV_HUGEPAGE, start, huge)
    # A device may be writing here when the process forks, and then one of the two would go on with a stale copy
    # (open(2)). The child gets empty pages instead: without any, it would have a hole there, put memory of its own
    # into it, and lose that when it drops these buffers.
    with suppress(OSError):  # before Linux 4.14
        space.madvise(_MADV_WIPEONFORK)
    view = memoryview(space)
    return [view[start + i * size : start + (i + 1) * size] for i in range(count)]


def _free(buffer: memoryview) -> None:
    """Give the memory of `buffer` back to the system; those beside it may be in use."""
    space = buffer.obj
    assert isinstance(space, mmap.mmap)
    space.madvise(mmap.MADV_DONTNEED, _address(buffer) - _address(space), buffer.nbytes)


def _address(memory: mmap.mmap | memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def copy_bytes(target: memoryview, source: memoryview) -> None:
    """Copy contiguous bytes of equal length, without the GIL where there are many: numpy does that."""
    if target.nbytes <= _COPIED_WITH_GIL_BYTES:
        target[:] = source
        return
    import numpy as np

    np.copyto(np.frombuffer(target, dtype=np.uint8), np.frombuffer(source, dtype=np.uint8))


_POOLS: "WeakSet[BufferPool]" = WeakSet()


def _begin_again() -> None:
    # Of a child, whose parent's threads may have held a lock or a buffer.
    for pool in list(_POOLS):
        pool._begin()


os.register_at_fork(after_in_child=_begin_again)
