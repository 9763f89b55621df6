"""The Curve record: hits as a function of capacity."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from warmset.errors import InputError

Order = Literal["tail-first", "head-first"]
Weight = Literal["tokens", "blocks"]

# Reads change nothing in these policies: `fifo` evicts by entry, `optimal` by the next use.
POLICIES_WITHOUT_ORDER = ("fifo", "optimal")

# More blocks than any tier can index; a larger figure is a typing error.
MAX_CAPACITY_BLOCKS = 2**53


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a sampled curve was drawn, and how far it may be off.

    Attributes:
        ratio: share of the blocks that were followed.
        seed: seed of the draw.
        branch_blocks: length over which blocks of one chain are drawn together (see `sampling`).
        sampled_blocks: distinct blocks followed; sampled_accesses: accesses to them.
        error_ratio: bound of the hit ratio's error at any capacity from `error_from_blocks` up, at about
            95 % confidence: from the scatter of four groups that the sample is made of.
        error_from_blocks: smallest capacity that the bound speaks of; below it a sample has too few blocks.
        complete: False when blocks were forgotten to bound memory; then the ceiling is a lower bound.
    """

    ratio: float
    seed: int
    branch_blocks: int
    sampled_blocks: int
    sampled_accesses: int
    error_ratio: float
    error_from_blocks: int
    complete: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Hit tokens of an LRU cache for every capacity, over one trace.

    Attributes:
        cumulative_hit_tokens: entry c is the hit tokens of c cache slots; constant after the last entry.
            One slot stands for `blocks_per_slot` blocks (1 in an exact curve, 1/ratio in a sampled one).
        total_tokens: tokens covered by listed blocks, in the requests that count: the denominator.
        prompt_tokens: all prompt tokens of the requests that count, listed in blocks or not.
        requests, warmup_requests: requests in the trace, and those at its start that only warm the cache.
        accesses, unique_blocks: block accesses and distinct blocks in the whole trace.
        block_tokens: tokens per full block.
        order: within a request, which end is touched first; `tail-first` looks up prefixes, as servers do,
            `head-first` counts every resident block.
        weight: what one hit counts; with `blocks`, read "tokens" in the names above as "blocks".
        sampling: None for an exact curve.
    """

    cumulative_hit_tokens: NDArray[np.int64]
    total_tokens: int
    prompt_tokens: int
    requests: int
    warmup_requests: int
    accesses: int
    unique_blocks: int
    block_tokens: int
    order: Order = "tail-first"
    weight: Weight = "tokens"
    blocks_per_slot: float = 1.0
    sampling: Sampling | None = None

    @property
    def ceiling_hit_tokens(self) -> int:
        """Hit tokens of a cache that never evicts."""
        return int(self.cumulative_hit_tokens[-1])

    @property
    def ceiling_hit_ratio(self) -> float:
        """Hit ratio of a cache that never evicts."""
        return self.ratio(self.ceiling_hit_tokens)

    @property
    def ceiling_capacity_blocks(self) -> int:
        """Smallest capacity that reaches the ceiling: more than this is never used."""
        slots = int(np.searchsorted(self.cumulative_hit_tokens, self.ceiling_hit_tokens))
        return round(slots * self.blocks_per_slot)

    def ratio(self, hit_tokens: float) -> float:
        """`hit_tokens` over the tokens covered by listed blocks (0 where there are none)."""
        return hit_tokens / self.total_tokens if self.total_tokens else 0.0

    def hit_tokens_at(self, capacity_blocks: int) -> int:
        """Hit tokens of a cache of `capacity_blocks` blocks."""
        check_capacity(capacity_blocks, zero=True)
        last = len(self.cumulative_hit_tokens) - 1
        slots = capacity_blocks / self.blocks_per_slot
        if slots >= last:
            return self.ceiling_hit_tokens
        low = int(slots)
        low_tokens, high_tokens = (int(v) for v in self.cumulative_hit_tokens[low : low + 2])
        return round(low_tokens + (slots - low) * (high_tokens - low_tokens))

    def hit_ratio_at(self, capacity_blocks: int) -> float:
        """Share of the covered tokens that a cache of `capacity_blocks` blocks serves."""
        return self.ratio(self.hit_tokens_at(capacity_blocks))

    def capacity_for(self, hit_tokens: float) -> int:
        """Smallest capacity in blocks with at least `hit_tokens`; InputError beyond the ceiling."""
        if hit_tokens > self.ceiling_hit_tokens:
            raise InputError(
                f"no capacity reaches `{hit_tokens:g}` hit tokens",
                hint=f"the ceiling of this trace is {self.ceiling_hit_tokens:,}",
            )
        slots = int(np.searchsorted(self.cumulative_hit_tokens, hit_tokens))
        return int(np.ceil(slots * self.blocks_per_slot))


def check_capacity(capacity_blocks: int, *, zero: bool = False) -> None:
    """Raise InputError for a capacity that no cache has."""
    if not (0 if zero else 1) <= capacity_blocks <= MAX_CAPACITY_BLOCKS:
        reason = "is absurdly large" if capacity_blocks > 0 else "holds no block"
        raise InputError(
            f"capacity `{capacity_blocks}` {reason}", hint="give a number of blocks, such as `10000`"
        )
