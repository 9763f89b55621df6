"""A device pool whose running requests hold their blocks: LRU among the blocks that nobody holds."""

import numpy as np

from warmset.curves._jit import Array, jit
from warmset.curves.exact import warmup_requests
from warmset.curves.policies.simulate import access_tokens
from warmset.curves.record import check_capacity
from warmset.errors import InputError
from warmset.traces.record import Trace


def pinned_hit_tokens(
    trace: Trace, capacity_blocks: int, concurrency: int, *, warmup_ratio: float = 0.0
) -> int:
    """Hit tokens of a pool of `capacity_blocks` while `concurrency` requests run at a time.

    A request holds its prompt's blocks and those of its output until `concurrency` later ones have
    arrived, or until room for another is needed; then its blocks become the most recent, tail first.
    A request larger than the whole pool cannot run, and counts as a miss that changes nothing.
    """
    check_capacity(capacity_blocks)
    if not 1 <= concurrency <= 1_000_000:
        raise InputError(
            f"concurrency `{concurrency}` is not between 1 and 1,000,000",
            hint="give the number of requests that run at a time, such as `64`",
        )
    warmup = warmup_requests(trace, warmup_ratio)
    outputs = -(-np.maximum(trace.output_tokens, 0) // trace.block_tokens)
    ids = trace.block_ids.astype(np.int64, copy=False)
    return int(
        _pinned_hits(
            ids,
            trace.offsets,
            access_tokens(trace),
            outputs,
            trace.unique_blocks,
            capacity_blocks,
            concurrency,
            warmup,
        )
    )


@jit
def _unlink(block: int, older: Array, newer: Array) -> None:
    newer[older[block]] = newer[block]
    older[newer[block]] = older[block]


@jit
def _finish(r: int, ids: Array, offsets: Array, holders: Array, older: Array, newer: Array, head: int) -> int:
    """Let go of the blocks of request r, tail first; returns how many nobody holds any more."""
    freed = 0
    for i in range(offsets[r + 1] - 1, offsets[r] - 1, -1):
        block = ids[i]
        holders[block] -= 1
        if holders[block] == 0:
            last = older[head]
            newer[last], older[block] = block, last
            newer[block], older[head] = head, block
            freed += 1
    return freed


@jit
def _pinned_hits(
    ids: Array,
    offsets: Array,
    tokens: Array,
    outputs: Array,
    unique: int,
    capacity: int,
    concurrency: int,
    warmup: int,
) -> int:
    holders = np.zeros(unique, dtype=np.int64)
    resident = np.zeros(unique, dtype=np.bool_)
    older, newer = np.arange(unique + 1), np.arange(unique + 1)  # idle blocks, least recent after `unique`
    running = np.zeros(concurrency, dtype=np.int64)
    first, count = 0, 0
    empty = capacity
    idle = 0
    hits = 0
    for r in range(len(offsets) - 1):
        start, end = offsets[r], offsets[r + 1]
        if end - start + outputs[r] > capacity:
            continue
        while True:
            hit = start
            held = 0
            while hit < end and resident[ids[hit]]:
                held += holders[ids[hit]] == 0
                hit += 1
            # Blocks that are hit while idle cannot make room for the rest.
            need = end - hit + outputs[r]
            if count < concurrency and need <= empty + idle - held:
                break
            done = running[first]
            first = (first + 1) % concurrency
            count -= 1
            idle += _finish(done, ids, offsets, holders, older, newer, unique)
            empty += outputs[done]
        for i in range(start, hit):
            if r >= warmup:
                hits += tokens[i]
            if holders[ids[i]] == 0:
                _unlink(ids[i], older, newer)
                idle -= 1
            holders[ids[i]] += 1
        # A gap in a chain can leave later blocks of it resident: they are written anew in the same place.
        for i in range(hit, end):
            block = ids[i]
            if resident[block]:
                if holders[block] == 0:
                    _unlink(block, older, newer)
                    idle -= 1
            else:
                if empty == 0:
                    victim = newer[unique]
                    _unlink(victim, older, newer)
                    resident[victim] = False
                    idle -= 1
                    empty += 1
                resident[block] = True
                empty -= 1
            holders[block] += 1
        while empty < outputs[r]:
            victim = newer[unique]
            _unlink(victim, older, newer)
            resident[victim] = False
            idle -= 1
            empty += 1
        empty -= outputs[r]
        running[(first + count) % concurrency] = r
        count += 1
    return hits
