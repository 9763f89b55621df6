"""The sampled LRU hit curve: bounded memory, any length of trace, equal on any number of machines.

Whether a block is followed depends on its chain and the draw alone, so any part of a trace can be sampled
anywhere; the samples, about `ratio` of the accesses, then go through one stack in order. Partitioned or
not, the stack sees the same sequence, so the curves are equal bit for bit.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from warmset.curves.draw import GROUPS, Draw, Sample, make_draw, pilot_of, sample
from warmset.curves.follow import FollowedStack
from warmset.curves.record import Curve, Sampling
from warmset.errors import InputError
from warmset.traces.record import Trace

# Followed blocks kept in memory, about 50 bytes each: at 1 %, 800 million blocks of capacity.
DEFAULT_MAX_BLOCKS = 1 << 23
# Below this many followed blocks a capacity is too small for the sample to speak of.
_RESOLVED_BLOCKS = 10
_STUDENT_975 = 3.182  # three degrees of freedom: GROUPS - 1


def sampled_curve(
    chunks: Trace | Iterable[Trace],
    *,
    ratio: float = 0.01,
    seed: int = 0,
    warmup_requests: int = 0,
    max_blocks: int = DEFAULT_MAX_BLOCKS,
) -> Curve:
    """The tail-first, token-weighted LRU curve from a sample of the blocks.

    `chunks` is a trace, or its consecutive parts with block ids that are equal across parts; one part is in
    memory at a time, besides the first few, which the draw learns from.
    Raises InputError for an empty trace or a ratio that follows nothing.
    """
    pilot, parts = pilot_of((chunks,) if isinstance(chunks, Trace) else chunks)
    draw = make_draw(pilot, ratio, seed)
    del pilot
    samples = (sample(part, draw) for part in parts)
    return curve_of_samples(samples, draw, warmup_requests=warmup_requests, max_blocks=max_blocks)


def curve_of_samples(
    samples: Iterable[Sample],
    draw: Draw,
    *,
    warmup_requests: int = 0,
    max_blocks: int = DEFAULT_MAX_BLOCKS,
) -> Curve:
    """The curve from samples of consecutive parts of a trace, in order."""
    stacks = [
        FollowedStack(draw.spacing, None, max_blocks),
        *(FollowedStack(GROUPS * draw.spacing, 1 + group, max_blocks) for group in range(GROUPS)),
    ]
    requests = accesses = total = prompt = hot_total = block_tokens = 0
    for part in samples:
        skip = max(0, warmup_requests - requests)
        for stack in stacks:
            stack.feed(part, skip)
        requests += len(part.covered_tokens)
        accesses += part.accesses
        total += int(part.covered_tokens[skip:].sum())
        hot_total += int(part.hot_tokens[skip:].sum())
        prompt += int(part.input_tokens[skip:].sum())
        block_tokens = part.block_tokens
    if accesses == 0 or requests <= warmup_requests:
        raise InputError(
            "the trace has no block accesses to count", hint="lower the warm-up, or check the file"
        )
    full = stacks[0]
    if full.accesses == 0:
        raise InputError(
            f"a sample of 1 in `{draw.spacing}` follows no block of this trace",
            hint="raise `--sample`, or leave it out: the exact curve is cheap on a small trace",
        )
    groups = [_estimate(stack, total - hot_total) for stack in stacks[1:]]
    estimate = _estimate(full, total - hot_total)
    stretch = (total - hot_total) / (draw.spacing * full.cold_tokens) if full.cold_tokens else 1.0
    return Curve(
        cumulative_hit_tokens=np.rint(estimate).astype(np.int64),
        total_tokens=total,
        prompt_tokens=prompt,
        requests=requests,
        warmup_requests=warmup_requests,
        accesses=accesses,
        unique_blocks=-1,
        block_tokens=block_tokens,
        blocks_per_slot=float(draw.spacing),
        sampling=Sampling(
            ratio=1 / draw.spacing,
            seed=draw.seed,
            branch_blocks=draw.branch_blocks,
            sampled_blocks=full.blocks,
            sampled_accesses=full.accesses,
            error_ratio=max(
                _error_ratio(groups, draw, full.cold_blocks, total), _shift_ratio(estimate, stretch, total)
            ),
            error_from_blocks=_RESOLVED_BLOCKS * draw.spacing,
            complete=not full.forgot,
        ),
    )


def _estimate(stack: FollowedStack, cold_total: int) -> NDArray[np.float64]:
    """Hit tokens: those of hot blocks as counted, the rest by its share among followed tokens."""
    hot, cold = stack.hits()
    return hot + cold * (cold_total / stack.cold_tokens if stack.cold_tokens else 0.0)


def _shift_ratio(estimate: NDArray[np.float64], stretch: float, total: int) -> float:
    """How far the curve moves if a slot stands for `stretch` times as many blocks as it is taken for.

    The sample's share of the tokens is known, and its share of the blocks, which is what capacities are
    scaled by, is about as far from the nominal one.
    """
    slots = np.arange(_RESOLVED_BLOCKS, len(estimate))
    if not len(slots) or total == 0:
        return 0.0
    moved = [
        np.interp(slots * factor, np.arange(len(estimate)), estimate) for factor in (stretch, 1 / stretch)
    ]
    return float(np.abs(moved - estimate[slots]).max()) / total


def _error_ratio(groups: list[NDArray[np.float64]], draw: Draw, followed: int, total: int) -> float:
    """Bound of the error at any capacity, from the scatter of the groups' own estimates.

    The mean of K independent groups scatters by s/√K; a systematic sample of all blocks does no worse than
    the mean of its groups. The worst capacity is taken for all, at Student's 97.5 % quantile for K - 1.
    Where branches are shorter than the spacing most are met by no followed block; the groups then share a
    bias that their scatter does not show, and the bound is doubled (so measured on short conversations).
    Groups that agree prove little when they are small: by the rule of three, what none of n followed blocks
    shows may still be true of 3/n of all.
    """
    if followed == 0 or total == 0:
        return 0.0  # every block is followed with certainty
    wider = 2 if draw.branch_blocks < draw.spacing else 1
    # A slot of a group is GROUPS slots of the whole.
    start = math.ceil(_RESOLVED_BLOCKS / GROUPS)
    size = max(start + 1, *(len(values) for values in groups))
    padded = np.stack([np.pad(values, (0, size - len(values)), mode="edge") for values in groups])
    scatter = float(padded[:, start:].std(axis=0, ddof=1).max()) / total
    return max(wider * _STUDENT_975 * scatter / math.sqrt(GROUPS), min(1.0, 3 / followed))
