"""Adaptive replacement, as vLLM's host tier runs it (`eviction_policy: arc`, vLLM 0.32).

Four lists: T1 (read once since stored), T2 (read again), and the ghosts B1 and B2 of what left them. A ghost
that is wanted again moves the target size of T1. Against the textbook (Megiddo and Modha, 2003): blocks
enter T1 even from a ghost list, a request counts as one access, its blocks are protected while room is
made, and a request that does not fit stores nothing.
"""

import numpy as np

from warmset.curves._jit import Array, jit

# A block's list; each list is a ring through its own head, at index unique + list.
NOWHERE, T1, T2, B1, B2 = 0, 1, 2, 3, 4


@jit
def _unlink(block: int, where: Array, sizes: Array, older: Array, newer: Array) -> None:
    sizes[where[block]] -= 1
    newer[older[block]] = newer[block]
    older[newer[block]] = older[block]
    where[block] = 0


@jit
def _append(block: int, to: int, unique: int, where: Array, sizes: Array, older: Array, newer: Array) -> None:
    head = unique + to
    last = older[head]
    newer[last] = block
    older[block] = last
    newer[block] = head
    older[head] = block
    where[block] = to
    sizes[to] += 1


@jit
def arc_hits(ids: Array, offsets: Array, tokens: Array, unique: int, capacity: int, warmup: int) -> int:
    """Hit tokens of leading resident blocks."""
    where = np.zeros(unique, dtype=np.int8)
    sizes = np.zeros(5, dtype=np.int64)
    older = np.arange(unique + 5)
    newer = np.arange(unique + 5)
    owner = np.full(unique, -1, dtype=np.int64)
    stored_by = np.full(unique, -1, dtype=np.int64)
    target = 0.0
    hits = 0
    for r in range(len(offsets) - 1):
        start, end = offsets[r], offsets[r + 1]
        leading = True
        missing = 0
        for i in range(start, end):
            block = ids[i]
            owner[block] = r
            resident = where[block] == T1 or where[block] == T2
            if not resident:
                leading = False
                missing += 1
            elif leading and r >= warmup:
                hits += tokens[i]
        for i in range(end - 1, start - 1, -1):
            block = ids[i]
            ghost = where[block]
            if ghost == B1:
                target = min(target + max(1.0, sizes[B2] / sizes[B1]), float(capacity))
            elif ghost == B2:
                target = max(target - max(1.0, sizes[B1] / sizes[B2]), 0.0)
            else:
                continue
            _unlink(block, where, sizes, older, newer)
            _append(block, ghost, unique, where, sizes, older, newer)
        if end - start <= capacity:
            evict = missing - (capacity - sizes[T1] - sizes[T2])
            at_1, at_2 = newer[unique + T1], newer[unique + T2]
            for _ in range(evict):
                while at_1 < unique and owner[at_1] == r:
                    at_1 = newer[at_1]
                while at_2 < unique and owner[at_2] == r:
                    at_2 = newer[at_2]
                from_1 = at_2 >= unique or (sizes[T1] >= int(target) and at_1 < unique)
                victim = at_1 if from_1 else at_2
                if from_1:
                    at_1 = newer[at_1]
                else:
                    at_2 = newer[at_2]
                _unlink(victim, where, sizes, older, newer)
                _append(victim, B1 if from_1 else B2, unique, where, sizes, older, newer)
            if evict > 0:
                for ghost in (B1, B2):
                    while sizes[ghost] > capacity:
                        _unlink(newer[unique + ghost], where, sizes, older, newer)
            for i in range(start, end):
                block = ids[i]
                if where[block] != T1 and where[block] != T2:
                    if where[block] != NOWHERE:
                        _unlink(block, where, sizes, older, newer)
                    _append(block, T1, unique, where, sizes, older, newer)
                    stored_by[block] = r
        for i in range(end - 1, start - 1, -1):
            block = ids[i]
            if where[block] == T1 or where[block] == T2:
                to = T1 if stored_by[block] == r else T2
                _unlink(block, where, sizes, older, newer)
                _append(block, to, unique, where, sizes, older, newer)
    return hits
