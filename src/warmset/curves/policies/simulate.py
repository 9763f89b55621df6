"""Runs a policy over a trace at given capacities."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from warmset.curves.exact import lru_curve, warmup_requests
from warmset.curves.policies.arc import arc_hits
from warmset.curves.policies.fifo import fifo_hits
from warmset.curves.policies.lfu import lfu_hits
from warmset.curves.policies.optimal import next_uses, optimal_hits
from warmset.curves.record import Weight, check_capacity
from warmset.errors import UnknownName
from warmset.traces.record import Trace

# name → what it is, for help texts. `lru` needs no simulation: its curve is exact.
POLICIES = {
    "lru": "least recently used, tail first: vLLM's default on the device and on the host",
    "arc": "adaptive replacement, as vLLM's host tier runs it",
    "fifo": "first in, first out; reuse does not refresh",
    "lfu": "least frequently used, ties by recency",
    "optimal": "clairvoyant: evicts the leaf that is needed latest; no policy hits more blocks",
}


def simulate(
    trace: Trace,
    policy: str,
    capacities: Sequence[int],
    *,
    weight: Weight = "tokens",
    warmup_ratio: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> list[int]:
    """Hit tokens of `policy` at each of `capacities` (blocks), by leading resident blocks.

    `progress` is told (capacities done, capacities asked) after each.
    Raises UnknownName for a policy that is not in POLICIES, InputError as `lru_curve` does.
    """
    if policy not in POLICIES:
        raise UnknownName("policy", policy, POLICIES, hint=f"policies: {', '.join(POLICIES)}")
    for capacity in capacities:
        check_capacity(capacity)
    warmup = warmup_requests(trace, warmup_ratio)
    # The LRU pass also proves the chaining that every policy relies on.
    curve = lru_curve(trace, weight=weight, warmup_ratio=warmup_ratio)
    if policy == "lru":
        return [curve.hit_tokens_at(capacity) for capacity in capacities]
    tokens = access_tokens(trace) if weight == "tokens" else np.ones(trace.accesses, dtype=np.int64)
    ids = trace.block_ids.astype(np.int64, copy=False)
    if policy == "optimal":
        uses, parents = next_uses(ids, trace.offsets, trace.unique_blocks)
        run: Callable[[int], int] = lambda capacity: optimal_hits(  # noqa: E731
            ids, trace.offsets, tokens, uses, parents, trace.unique_blocks, capacity, warmup
        )
    else:
        kernel = {"arc": arc_hits, "fifo": fifo_hits, "lfu": lfu_hits}[policy]
        run = lambda capacity: kernel(  # noqa: E731
            ids, trace.offsets, tokens, trace.unique_blocks, capacity, warmup
        )
    hits = []
    for done, capacity in enumerate(capacities, 1):
        # More slots than blocks exist change nothing, and would only cost memory.
        hits.append(int(run(min(capacity, trace.unique_blocks))))
        if progress is not None:
            progress(done, len(capacities))
    return hits


def access_tokens(trace: Trace) -> NDArray[np.int64]:
    """Tokens that each block access covers."""
    if trace.tokens_per_block is not None:
        return trace.tokens_per_block.astype(np.int64)
    lengths = np.diff(trace.offsets)
    index = np.arange(trace.accesses) - np.repeat(trace.offsets[:-1], lengths)
    rest = np.repeat(trace.input_tokens, lengths) - index * trace.block_tokens
    tokens: NDArray[np.int64] = np.clip(rest, 0, trace.block_tokens)
    return tokens
