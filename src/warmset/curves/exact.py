"""The exact LRU hit curve for every capacity, in one pass over the trace.

Every block knows the request that last touched it. The blocks that a request q still holds are always a
suffix of its chain, because whoever touches a block touches its ancestors. So the chain of a request r
falls into few runs with one last request each, every run starts at the first block that its q still holds,
and a run's place in the LRU stack is (blocks held by requests after q) + (blocks of r before the run): one
query of a Fenwick tree over requests per run, and one comparison and one write per block.
"""

import math

import numpy as np

from warmset.curves._jit import Array, jit
from warmset.curves.record import Curve, Order, Weight
from warmset.errors import InputError
from warmset.traces.record import Trace

_NO_TOKENS = np.zeros(0, dtype=np.int32)


def lru_curve(
    trace: Trace, *, order: Order = "tail-first", weight: Weight = "tokens", warmup_ratio: float = 0.0
) -> Curve:
    """Hit tokens of an LRU cache at every capacity.

    `tail-first` looks up the longest run of leading resident blocks, then touches all of the request's
    blocks from tail to head and evicts down to the capacity: what servers do. `head-first` is the plain
    LRU of the cache literature: block by block from the head, each hit counted by itself.
    The first `warmup_ratio` of the requests fill the cache and count neither as hits nor in the totals.

    Raises InputError when the trace has no requests left to count, or is not prefix-chained.
    """
    warmup = warmup_requests(trace, warmup_ratio)
    tokens = trace.tokens_per_block if weight == "tokens" else None
    unit = 1 if weight == "blocks" else trace.block_tokens
    lengths = np.diff(trace.offsets)
    covered = lengths if weight == "blocks" else trace.input_tokens
    slots = np.zeros(trace.unique_blocks + 2, dtype=np.int64)
    deepest, bad = lru_pass(
        trace.block_ids,
        trace.offsets,
        covered,
        _NO_TOKENS if tokens is None else tokens,
        unit,
        warmup,
        order == "head-first",
        np.full(trace.unique_blocks, -1, dtype=np.int32),
        slots,
    )
    if bad >= 0:
        raise InputError(
            f"the block ids of request `{bad}` are not prefix-chained",
            hint="equal ids must mean equal prefixes; read content ids with a reader that chains them",
        )
    # From differences to hits at each stack position, to hits at each capacity.
    slots = slots[: deepest + 2]
    np.cumsum(slots, out=slots)
    np.cumsum(slots[:-1], out=slots[1:])
    slots[0] = 0
    if tokens is not None:
        total = int(tokens[trace.offsets[warmup] :].sum(dtype=np.int64))
    else:
        total = int(np.minimum(lengths * unit, covered)[warmup:].sum())
    return Curve(
        cumulative_hit_tokens=slots,
        total_tokens=total,
        prompt_tokens=int(trace.input_tokens[warmup:].sum()),
        requests=trace.requests,
        warmup_requests=warmup,
        accesses=trace.accesses,
        unique_blocks=trace.unique_blocks,
        block_tokens=trace.block_tokens,
        order=order,
        weight=weight,
    )


def warmup_requests(trace: Trace, warmup_ratio: float) -> int:
    """How many requests at the start only warm the cache; InputError where none is left to count."""
    if not 0 <= warmup_ratio < 1:
        raise InputError(
            f"warm-up `{warmup_ratio}` leaves nothing to count",
            hint="give the share of requests that only warm the cache, such as `0.5`",
        )
    if trace.accesses == 0:
        raise InputError(
            f"the trace `{trace.source}` has no block accesses",
            hint="`warmset trace info` shows what a reader found in the file",
        )
    return math.floor(trace.requests * warmup_ratio)


@jit
def lru_pass(
    block_ids: Array,
    offsets: Array,
    covered_tokens: Array,
    tokens_per_block: Array,
    block_tokens: int,
    warmup: int,
    head_first: bool,
    last: Array,
    difference: Array,
) -> tuple[int, int]:
    """Add the hits of every request to `difference`, indexed by stack position; `last` starts at -1.

    Returns the deepest position hit (-1 for none), and the first request that breaks the prefix chaining
    (-1 for none).
    """
    requests = len(offsets) - 1
    tree = np.zeros(requests + 1, dtype=np.int32)
    held = np.zeros(requests, dtype=np.int32)
    held_by_all = 0
    deepest = -1
    for r in range(requests):
        start = offsets[r]
        length = offsets[r + 1] - start
        full = min(covered_tokens[r] // block_tokens, length)
        k = 0
        while k < length:
            q = last[block_ids[start + k]]
            if q < 0:
                break
            base = offsets[q]
            q_length = offsets[q + 1] - base
            if k != q_length - held[q] or (k > 0 and block_ids[base + k - 1] != block_ids[start + k - 1]):
                return deepest, r
            # q holds the rest of its chain, so the run is what the two chains have in common from here.
            stop = min(length, q_length)
            j = k
            while j < stop:
                block = block_ids[start + j]
                if block != block_ids[base + j]:
                    break
                last[block] = r
                j += 1
            if j == k:
                return deepest, r
            position = held_by_all + k
            if head_first:
                position += held[q] - 1
            node = q + 1
            while node > 0:
                position -= tree[node]
                node &= node - 1
            run = j - k
            held[q] -= run
            held_by_all -= run
            node = q + 1
            while node <= requests:
                tree[node] -= run
                node += node & -node
            if r >= warmup:
                if head_first:
                    hit = 0
                    if len(tokens_per_block) > 0:
                        for i in range(start + k, start + j):
                            hit += tokens_per_block[i]
                    else:
                        hit = max(0, min(covered_tokens[r], j * block_tokens) - k * block_tokens)
                    difference[position] += hit
                    difference[position + 1] -= hit
                    deepest = max(deepest, position)
                else:
                    if len(tokens_per_block) > 0:
                        for i in range(run):
                            difference[position + i] += tokens_per_block[start + k + i]
                            difference[position + i + 1] -= tokens_per_block[start + k + i]
                    else:
                        whole = max(0, min(full, j) - k)
                        difference[position] += block_tokens
                        difference[position + whole] -= block_tokens
                        if k <= full < j:
                            tail = covered_tokens[r] - full * block_tokens
                            difference[position + whole] += tail
                            difference[position + whole + 1] -= tail
                    deepest = max(deepest, position + run - 1)
            k = j
        for i in range(start + k, start + length):
            if last[block_ids[i]] >= 0:
                return deepest, r
            last[block_ids[i]] = r
        held[r] = length
        held_by_all += length
        node = r + 1
        while node <= requests:
            tree[node] += length
            node += node & -node
    return deepest, -1
