"""Least frequently used: of the blocks not wanted now, the one read by the fewest requests leaves first."""

import numpy as np

from warmset.curves._jit import Array, jit
from warmset.curves.policies.heap import push, remove


@jit
def lfu_hits(ids: Array, offsets: Array, tokens: Array, unique: int, capacity: int, warmup: int) -> int:
    """Hit tokens. A block counts requests while it is resident, and starts again when it comes back.

    Ties leave in order of last touch, tail first, so that with equal counts this is LRU.
    """
    heap = np.zeros(unique, dtype=np.int64)
    place = np.full(unique, -1, dtype=np.int64)
    count = np.zeros(unique, dtype=np.int64)
    touched = np.zeros(unique, dtype=np.int64)
    size = 0
    clock = 0
    hits = 0
    for r in range(len(offsets) - 1):
        start, end = offsets[r], offsets[r + 1]
        leading = True
        for i in range(start, end):
            block = ids[i]
            if place[block] >= 0:
                if leading and r >= warmup:
                    hits += tokens[i]
                # Out of the heap while the request holds it: it cannot be evicted for itself.
                size = remove(heap, place, size, block, count, touched)
            else:
                leading = False
                count[block] = 0
        wanted = min(end - start, capacity)
        while size + wanted > capacity:
            size = remove(heap, place, size, heap[0], count, touched)
        for i in range(start + wanted - 1, start - 1, -1):
            block = ids[i]
            clock += 1
            touched[block] = clock
            count[block] += 1
            size = push(heap, place, size, block, count, touched)
    return hits
