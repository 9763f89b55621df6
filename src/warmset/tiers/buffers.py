"""Page-aligned buffers that are used again: direct file I/O needs them, and fresh pages cost faults."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import PAGESIZE, mmap


def whole_pages(size_bytes: int) -> int:
    """`size_bytes` rounded up to whole pages, at least one."""
    return max(1, -(-size_bytes // PAGESIZE)) * PAGESIZE


class BufferPool:
    """Lends page-aligned buffers and keeps at most `keep_bytes` of idle ones."""

    def __init__(self, keep_bytes: int = 256 << 20) -> None:
        self._idle: dict[int, list[mmap]] = {}
        self._idle_bytes = 0
        self._keep_bytes = keep_bytes
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, size_bytes: int) -> Iterator[memoryview]:
        """A writable buffer of `size_bytes` rounded up to whole pages; its content is arbitrary."""
        size = whole_pages(size_bytes)
        with self._lock:
            idle = self._idle.get(size)
            pages = idle.pop() if idle else None
            if pages is not None:
                self._idle_bytes -= size
        if pages is None:
            pages = mmap(-1, size)
        view = memoryview(pages)
        try:
            yield view
        finally:
            view.release()
            with self._lock:
                if keep := self._idle_bytes + size <= self._keep_bytes:
                    self._idle.setdefault(size, []).append(pages)
                    self._idle_bytes += size
            if not keep:
                pages.close()


def copy_bytes(target: memoryview, source: memoryview) -> None:
    """Copy contiguous bytes of equal length; numpy does it without the GIL, a memoryview assignment would not."""
    import numpy as np

    np.copyto(np.frombuffer(target, dtype=np.uint8), np.frombuffer(source, dtype=np.uint8))
