"""The clairvoyant bound: of the leaves in the cache, the one that is needed latest leaves.

Belady's rule (1966) on a prefix tree: only leaves can leave, since a block without its ancestors is never
looked up, and a block that would be needed later than everything in the cache is not stored at all.
It counts blocks, from the first request on: where blocks differ in tokens, or the first hits do not count,
another policy can be a few blocks better.
"""

import numpy as np

from warmset.curves._jit import Array, jit
from warmset.curves.policies.heap import push, remove

NEVER = np.int64(2**62)


@jit
def next_uses(ids: Array, offsets: Array, unique: int) -> tuple[Array, Array]:
    """Per access, the next request that reads the block (NEVER if none); per block, its parent (-1: root)."""
    uses = np.empty(len(ids), dtype=np.int64)
    seen = np.full(unique, NEVER, dtype=np.int64)
    parents = np.full(unique, -1, dtype=np.int64)
    for r in range(len(offsets) - 2, -1, -1):
        for i in range(offsets[r], offsets[r + 1]):
            uses[i] = seen[ids[i]]
            seen[ids[i]] = r
            parents[ids[i]] = ids[i - 1] if i > offsets[r] else -1
    return uses, parents


@jit
def optimal_hits(
    ids: Array,
    offsets: Array,
    tokens: Array,
    uses: Array,
    parents: Array,
    unique: int,
    capacity: int,
    warmup: int,
) -> int:
    """Hit tokens of the clairvoyant cache; `uses` and `parents` as from `next_uses`."""
    heap = np.zeros(unique, dtype=np.int64)
    place = np.full(unique, -1, dtype=np.int64)
    children = np.zeros(unique, dtype=np.int64)
    resident = np.zeros(unique, dtype=np.bool_)
    sooner = np.zeros(unique, dtype=np.int64)  # minus the next use: latest first
    newest = -np.arange(unique)
    leaves = 0
    held = 0
    hits = 0
    for r in range(len(offsets) - 1):
        i, end = offsets[r], offsets[r + 1]
        while i < end and resident[ids[i]]:
            block = ids[i]
            if r >= warmup:
                hits += tokens[i]
            leaf = place[block] >= 0
            if leaf:
                leaves = remove(heap, place, leaves, block, sooner, newest)
            sooner[block] = -uses[i]
            if leaf:
                leaves = push(heap, place, leaves, block, sooner, newest)
            i += 1
        while i < end:
            block = ids[i]
            sooner[block] = -uses[i]
            if held == capacity:
                # What ends this request's own resident prefix is needed no later than `block`: never chosen.
                if leaves == 0 or sooner[heap[0]] >= sooner[block]:
                    break
                victim = heap[0]
                leaves = remove(heap, place, leaves, victim, sooner, newest)
                resident[victim] = False
                held -= 1
                above = parents[victim]
                if above >= 0:
                    children[above] -= 1
                    if children[above] == 0:
                        leaves = push(heap, place, leaves, above, sooner, newest)
            above = parents[block]
            if above >= 0:
                children[above] += 1
                if place[above] >= 0:
                    leaves = remove(heap, place, leaves, above, sooner, newest)
            resident[block] = True
            held += 1
            leaves = push(heap, place, leaves, block, sooner, newest)
            i += 1
    return hits
