"""Which blocks a sampled curve follows: systematic along each chain, the most-read ones always.

Every `spacing`-th block of a chain is followed, from a random start. That start is drawn anew at the root
and at anchor blocks, whose mean distance is the mean length of a branch: so long chains are sampled
evenly, which independent hashing of blocks does not do, and short branches of one prefix are sampled
independently, which a count of depth alone does not do. Both draws are hashes of block ids, so a block
is followed on every machine and at every visit, or never; nothing is remembered about the others.

The few most-read blocks carry much of the hit rate in one piece (a shared system prompt), so a pilot names
them and they are followed with certainty.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from warmset.curves._jit import Array, jit
from warmset.errors import InputError
from warmset.traces.record import Trace

# A followed block is hot, or belongs to one of the groups 1 … GROUPS, each a systematic sample by itself.
HOT, GROUPS = 0, 4
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)
_MAX_SPACING = 1_000_000
_PILOT_ACCESSES = 1 << 21


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Everything that decides whether a block is followed; the same on every machine of one curve.

    Attributes:
        spacing: one block in `spacing` is followed.
        seed: seed of the draw.
        branch_blocks: mean distance of anchors, in blocks.
        hot: block ids followed with certainty, sorted; every ancestor of a hot block is hot.
    """

    spacing: int
    seed: int
    branch_blocks: int
    hot: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The followed accesses of some consecutive requests.

    Attributes:
        block_ids, tokens, kinds: per followed access: id, tokens covered, and HOT or the group.
        offsets: requests + 1 entries into those.
        covered_tokens, hot_tokens: per request, tokens covered by all listed and by hot blocks.
        input_tokens: per request, prompt tokens.
        accesses: block accesses seen, followed or not.
        block_tokens: tokens per full block.
    """

    block_ids: NDArray[np.int64]
    tokens: NDArray[np.int64]
    kinds: NDArray[np.int8]
    offsets: NDArray[np.int64]
    covered_tokens: NDArray[np.int64]
    hot_tokens: NDArray[np.int64]
    input_tokens: NDArray[np.int64]
    accesses: int
    block_tokens: int


def pilot_of(parts: Iterable[Trace]) -> tuple[list[Trace], Iterator[Trace]]:
    """The first parts that a draw needs to see, and all parts again.

    How a trace is cut into parts does not change what the draw sees of it.
    """
    rest = iter(parts)
    pilot: list[Trace] = []
    seen = 0
    while seen < _PILOT_ACCESSES and (part := next(rest, None)) is not None:
        pilot.append(part)
        seen += part.accesses
    if not pilot:
        raise InputError("the trace has no requests", hint="name a trace with at least one request")
    return pilot, chain(pilot, rest)


def make_draw(pilot: Sequence[Trace], ratio: float, seed: int = 0) -> Draw:
    """Learn from the start of a trace how to sample the whole (its first two million accesses at most).

    Raises InputError for a ratio outside (0, 1], or one that follows less than a block in a million.
    """
    if not 1 / _MAX_SPACING <= ratio <= 1:
        raise InputError(
            f"sample `{ratio}` is not between 1/1,000,000 and 1",
            hint="give the share of blocks to follow, such as `0.01`",
        )
    if not 0 <= seed < 2**63:
        raise InputError(f"seed `{seed}` is out of range", hint="give a whole number from 0 up")
    offsets = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(part.offsets) for part in pilot]))))
    requests = max(1, int(np.searchsorted(offsets, _PILOT_ACCESSES, side="right")) - 1)
    offsets = offsets[: requests + 1]
    block_ids = np.concatenate([part.block_ids for part in pilot])[: offsets[-1]]
    ids, first, dense, counts = np.unique(
        block_ids, return_index=True, return_inverse=True, return_counts=True
    )
    lengths = np.diff(offsets)
    depth = (np.arange(len(dense)) - np.repeat(offsets[:-1], lengths))[first]
    parents = np.concatenate(([-1], dense[:-1]))[: len(dense)]
    parents[offsets[:-1][lengths > 0]] = -1
    # Every block but the first child of its parent begins a branch.
    is_parent = np.zeros(len(ids) + 1, dtype=bool)
    is_parent[parents[first]] = True
    branches = len(ids) - int(is_parent.sum()) + 1
    # A hot block's ancestors are read at least as often and lie above it: this order takes them first.
    order = np.lexsort((first, depth, -counts))[: math.ceil(ratio * len(ids))]
    return Draw(
        spacing=round(1 / ratio),
        seed=seed,
        branch_blocks=max(1, round(len(ids) / branches)),
        hot=np.sort(ids[order].astype(np.int64)),
    )


def sample(trace: Trace, draw: Draw) -> Sample:
    """The followed accesses of a trace, or of a chunk of one."""
    kinds = np.empty(trace.accesses, dtype=np.int8)
    tokens = np.empty(trace.accesses, dtype=np.int32)
    covered = np.empty(trace.requests, dtype=np.int64)
    hot_tokens = np.empty(trace.requests, dtype=np.int64)
    anchor = min(2**64 - 1, 2**64 // draw.branch_blocks)
    _choose(
        trace.block_ids,
        trace.offsets,
        trace.input_tokens,
        np.zeros(0, np.int32) if trace.tokens_per_block is None else trace.tokens_per_block,
        trace.block_tokens,
        draw.spacing,
        np.uint64(draw.seed),
        np.uint64(anchor),
        _hash_set(draw.hot),
        kinds,
        tokens,
        covered,
        hot_tokens,
    )
    kept = np.flatnonzero(kinds >= 0)
    return Sample(
        block_ids=trace.block_ids[kept].astype(np.int64),
        tokens=tokens[kept].astype(np.int64),
        kinds=kinds[kept],
        offsets=np.searchsorted(kept, trace.offsets).astype(np.int64),
        covered_tokens=covered,
        hot_tokens=hot_tokens,
        input_tokens=trace.input_tokens,
        accesses=trace.accesses,
        block_tokens=trace.block_tokens,
    )


def _hash_set(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """A table of ids by open addressing; the last entry is a flag for the id -1, which marks free places."""
    size = 1 << max(3, (4 * len(ids)).bit_length())
    table = np.full(size + 1, -1, dtype=np.int64)
    table[-1] = 0
    _fill(ids, table)
    return table


@jit
def mix(x: np.uint64) -> np.uint64:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of `x`."""
    x ^= x >> _S30
    x *= _MIX_1
    x ^= x >> _S27
    x *= _MIX_2
    return x ^ (x >> _S31)


@jit
def _fill(ids: Array, table: Array) -> None:
    places = len(table) - 1
    for block in ids:
        if block == -1:
            table[places] = 1
            continue
        place = np.int64(mix(np.uint64(block) + _GOLDEN) & np.uint64(places - 1))
        while table[place] != -1:
            place = (place + 1) & (places - 1)
        table[place] = block


@jit
def _choose(
    block_ids: Array,
    offsets: Array,
    input_tokens: Array,
    tokens_per_block: Array,
    block_tokens: int,
    spacing: int,
    seed: np.uint64,
    anchor: np.uint64,
    hot: Array,
    kinds: Array,
    tokens: Array,
    covered_tokens: Array,
    hot_tokens: Array,
) -> None:
    """Decide for every access whether it is followed (-1: no), and add up tokens per request."""
    salt = mix(seed * _GOLDEN + np.uint64(1))
    places = len(hot) - 1
    for r in range(len(offsets) - 1):
        start, end = offsets[r], offsets[r + 1]
        in_hot = True
        covered = 0
        hot_sum = 0
        until = 0
        group = 0
        for i in range(start, end):
            block = np.int64(block_ids[i])
            if len(tokens_per_block) > 0:
                size = tokens_per_block[i]
            else:
                size = max(0, min(block_tokens, input_tokens[r] - (i - start) * block_tokens))
            tokens[i] = size
            covered += size
            drawn = mix(np.uint64(block) + salt)
            if i == start or drawn < anchor:
                phase = mix(drawn + salt) % np.uint64(GROUPS * spacing)
                group = int(phase // np.uint64(spacing))
                until = int(phase % np.uint64(spacing))
            kind = -1
            if until == 0:
                kind = 1 + group
                group = (group + 1) % GROUPS
                until = spacing
            until -= 1
            if in_hot:
                if block == -1:
                    in_hot = hot[places] == 1
                else:
                    place = np.int64(mix(np.uint64(block) + _GOLDEN) & np.uint64(places - 1))
                    while hot[place] != block and hot[place] != -1:
                        place = (place + 1) & (places - 1)
                    in_hot = hot[place] == block
                if in_hot:
                    kind = 0
                    hot_sum += size
            kinds[i] = kind
        covered_tokens[r] = covered
        hot_tokens[r] = hot_sum
