"""Buffers that are lent: aligned, apart from each other, used in turns, and no more kept than agreed."""

import ctypes
import gc
import os
import re
import threading
import time
from collections.abc import Callable
from mmap import mmap
from pathlib import Path

import numpy as np
import pytest

from warmset.tiers.buffers import BufferPool
from warmset.tiers.memory import MemoryStore
from warmset.tiers.verify import VerifyingStore


def test_buffers_take_turns_and_are_used_again() -> None:
    pool = BufferPool(rotate_bytes=4 * 8192)

    def lent() -> int:
        with pool.lend(8000) as view:
            assert view.nbytes == 8192
            mark = int.from_bytes(view[:8], "little")
            if mark == 0:
                marks.append(len(marks) + 1)
                view[:8] = marks[-1].to_bytes(8, "little")
            return mark

    marks: list[int] = []
    assert [lent() for _ in range(4)] == [0, 0, 0, 0]
    assert [lent() for _ in range(8)] == [1, 2, 3, 4, 1, 2, 3, 4]


def test_the_pool_keeps_no_more_than_it_may() -> None:
    pool = BufferPool(keep_bytes=2 * 8192, rotate_bytes=0)
    lent = [pool.lend(8192) for _ in range(5)]
    views = [buffer.__enter__() for buffer in lent]
    assert len({_address(view) for view in views}) == 5
    for buffer in lent:
        buffer.__exit__(None, None, None)
    assert pool._idle_bytes == 2 * 8192
    again = [pool.lend(8192) for _ in range(3)]
    assert len({_address(buffer.__enter__()) for buffer in again}) == 3


def test_buffers_of_any_size_are_aligned_apart_and_side_by_side() -> None:
    for size in (4096, 516 << 10, (2 << 20) + 4096, (5 << 20) + 1):
        pool = BufferPool()
        lent = [pool.lend(size) for _ in range(40)]
        views = [buffer.__enter__() for buffer in lent]
        starts = [_address(view) for view in views]
        assert all(start % 4096 == 0 for start in starts)
        assert all(view.nbytes == -(-size // 4096) * 4096 for view in views)
        turns = min(32, (16 << 20) // views[0].nbytes)
        assert sorted(starts[:turns]) == [min(starts[:turns]) + i * views[0].nbytes for i in range(turns)]
        for number, view in enumerate(views):
            view[:: view.nbytes - 1] = bytes([number, number])
        assert [view[0] for view in views] == [view[-1] for view in views] == list(range(40))


def test_buffers_lie_in_huge_pages_where_there_are_any() -> None:
    choice = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not choice.exists() or "[never]" in choice.read_text():
        pytest.skip("this kernel gives no huge pages")
    with BufferPool().lend(4 << 20) as view:
        view[:] = bytes(view.nbytes)
        start = _address(view)
        maps = Path("/proc/self/smaps").read_text()
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", maps, flags=re.M)[1:]
    inside = [part for part in parts if _holds(part, start)]
    assert len(inside) == 1
    assert re.search(r"^VmFlags:.* hg\b", inside[0], re.M), "asked for"
    assert re.search(r"^VmFlags:.* wf\b", inside[0], re.M), "no child shares what a device may be writing"


def _in_a_child(action: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if action() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def test_a_child_has_buffers_of_its_own_and_loses_none_of_its_memory() -> None:
    pool = BufferPool()
    with pool.lend(1 << 20) as view:
        view[:] = b"P" * view.nbytes

    def child() -> bool:
        # Where the parent's buffers lie, nothing of the child's may come to lie, or it would go with them.
        own = [mmap(-1, 16 << 20) for _ in range(4)]
        arrays = [np.full(4 << 20, 7, np.uint8) for _ in range(8)]
        for memory in own:
            memory[:] = b"C" * len(memory)
        with pool.lend(1 << 20) as view:
            fresh = not any(view)
            view[:] = b"B" * view.nbytes
        gc.collect()
        whole = all(memory[:] == b"C" * len(memory) for memory in own)
        return fresh and whole and all((array == 7).all() for array in arrays)

    assert all(_in_a_child(child) for _ in range(5))
    with pool.lend(1 << 20) as view:
        assert bytes(view) in (bytes(view.nbytes), b"P" * view.nbytes), "the child's writes stay there"


def test_a_child_goes_on_though_the_lock_was_held_and_a_buffer_lent() -> None:
    pool = BufferPool()
    lent = pool.take(4096)

    def child() -> bool:
        with pool.lend(8192), pool.lend(4096):
            pool.give_back(lent)
        return True

    with pool._lock:
        assert _in_a_child(child)
    pool.give_back(lent)


def test_what_is_not_kept_takes_no_memory_though_what_lies_beside_it_is() -> None:
    pool = BufferPool(keep_bytes=4 << 20, rotate_bytes=4 << 20)
    resident = [_resident_bytes()]
    for pages in range(1, 60):
        # Of every size one buffer is kept, the rest of its piece is not.
        lent = [pool.take(pages * 16384) for _ in range(8)]
        for buffer in lent:
            buffer[:] = bytes([1]) * buffer.nbytes
        for buffer in lent:
            pool.give_back(buffer)
        resident.append(_resident_bytes())
    assert pool._idle_bytes <= 4 << 20
    assert resident[-1] - resident[0] < 40 << 20


def test_a_pool_that_may_keep_less_than_it_rotates_uses_buffers_again() -> None:
    pool = BufferPool(keep_bytes=3 << 20)
    starts = []
    for _ in range(50):
        with pool.lend(1 << 20) as view:
            starts.append(_address(view))
    assert len(set(starts)) <= 4


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _holds(mapping: str, address: int) -> bool:
    low, high = (int(end, 16) for end in mapping.split(" ", 1)[0].split("-"))
    return low <= address < high


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def test_a_buffer_that_is_not_kept_may_still_be_looked_at() -> None:
    store = VerifyingStore(MemoryStore(), pool=BufferPool(keep_bytes=0))
    store.put("k", b"x" * 8192)
    with store.verified("k", 8192) as payload:
        assert bytes(payload) == b"x" * 8192
    assert payload.nbytes == len(bytes(payload)) == 8192
    buffer = bytearray(8192)
    assert store.get("k", memoryview(buffer)) == 8192
    assert buffer == b"x" * 8192


def test_no_buffer_is_lent_twice_at_once() -> None:
    pool, errors = BufferPool(keep_bytes=16 * 4096, rotate_bytes=8 * 4096), []

    def borrow(mark: int) -> None:
        for turn in range(300):
            with pool.lend(1 + 4096 * (turn % 3)) as view:
                view[:] = bytes([mark]) * view.nbytes
                time.sleep(0)
                if bytes(view) != bytes([mark]) * view.nbytes or pool._idle_bytes > 16 * 4096:
                    errors.append(mark)

    threads = [threading.Thread(target=borrow, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    idle = {size: len(buffers) for size, buffers in pool._idle.items()}
    assert pool._idle_bytes == sum(size * count for size, count in idle.items())
    assert pool._made == idle, "none is missed"
