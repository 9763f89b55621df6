"""First in, first out: blocks enter head first and leave in that order, whatever is read meanwhile."""

import numpy as np

from warmset.curves._jit import Array, jit


@jit
def fifo_hits(ids: Array, offsets: Array, tokens: Array, unique: int, capacity: int, warmup: int) -> int:
    """Hit tokens; each insertion evicts at once when the cache is full."""
    queue = np.full(capacity, -1, dtype=np.int64)
    resident = np.zeros(unique, dtype=np.bool_)
    head = 0
    hits = 0
    for r in range(len(offsets) - 1):
        start, end = offsets[r], offsets[r + 1]
        i = start
        while i < end and resident[ids[i]]:
            if r >= warmup:
                hits += tokens[i]
            i += 1
        for i in range(start, end):
            block = ids[i]
            if resident[block]:
                continue
            if queue[head] >= 0:
                resident[queue[head]] = False
            queue[head] = block
            resident[block] = True
            head = (head + 1) % capacity
    return hits
