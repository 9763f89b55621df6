"""A binary heap of blocks that knows where each block is, so that keys can change and blocks can leave.

Smallest (key, tie) on top. Both are arrays by block; `place` is -1 for a block that is not in the heap.
"""

from warmset.curves._jit import Array, jit


@jit
def _before(a: int, b: int, key: Array, tie: Array) -> bool:
    return bool(key[a] < key[b] or (key[a] == key[b] and tie[a] < tie[b]))


@jit
def _up(heap: Array, place: Array, at: int, key: Array, tie: Array) -> None:
    block = heap[at]
    while at > 0:
        above = (at - 1) >> 1
        if not _before(block, heap[above], key, tie):
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = block
    place[block] = at


@jit
def _down(heap: Array, place: Array, size: int, at: int, key: Array, tie: Array) -> None:
    block = heap[at]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and _before(heap[below + 1], heap[below], key, tie):
            below += 1
        if not _before(heap[below], block, key, tie):
            break
        heap[at] = heap[below]
        place[heap[at]] = at
        at = below
    heap[at] = block
    place[block] = at


@jit
def push(heap: Array, place: Array, size: int, block: int, key: Array, tie: Array) -> int:
    """Add `block`; returns the new size."""
    heap[size] = block
    place[block] = size
    _up(heap, place, size, key, tie)
    return size + 1


@jit
def remove(heap: Array, place: Array, size: int, block: int, key: Array, tie: Array) -> int:
    """Take `block` out; returns the new size."""
    at = place[block]
    place[block] = -1
    size -= 1
    if at < size:
        heap[at] = heap[size]
        place[heap[at]] = at
        moved = heap[at]
        _up(heap, place, at, key, tie)
        _down(heap, place, size, place[moved], key, tie)
    return size
