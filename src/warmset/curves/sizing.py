"""Reads a capacity off a curve: within some points of the ceiling, and at the knee."""

from dataclasses import dataclass

import numpy as np

from warmset.curves.record import Curve
from warmset.errors import InputError

DEFAULT_WITHIN_POINTS = 1.0


@dataclass(frozen=True, slots=True)
class Size:
    """A capacity chosen on a curve.

    Attributes:
        capacity_blocks, capacity_tokens: the choice, in blocks and in tokens of full blocks.
        hit_tokens, hit_ratio: what it serves; ratios are over the tokens covered by listed blocks.
        ceiling_hit_ratio: what no capacity can beat.
        within_points: percentage points below the ceiling that were allowed.
    """

    capacity_blocks: int
    capacity_tokens: int
    hit_tokens: int
    hit_ratio: float
    ceiling_hit_ratio: float
    within_points: float


def size_for(curve: Curve, *, within_points: float = DEFAULT_WITHIN_POINTS) -> Size:
    """The smallest capacity whose hit ratio is at most `within_points` percentage points below the ceiling."""
    if not 0 <= within_points <= 100:
        raise InputError(
            f"`{within_points:g}` points are not between 0 and 100",
            hint="give percentage points below the ceiling, such as `1`",
        )
    enough = max(0.0, curve.ceiling_hit_tokens - within_points / 100 * curve.total_tokens)
    return _size(curve, curve.capacity_for(np.ceil(enough)), within_points)


def knee(curve: Curve) -> Size:
    """Where the curve bends: the capacity farthest above the line from nothing to the ceiling.

    (The maximum-distance knee of Satopää et al., "Finding a kneedle in a haystack", 2011, on linear axes,
    because memory costs the same per GiB everywhere.)
    """
    hits = curve.cumulative_hit_tokens
    end = max(1, int(np.searchsorted(hits, curve.ceiling_hit_tokens)))
    slots = np.arange(min(end + 1, len(hits)))
    gain = hits[: len(slots)] / max(1, curve.ceiling_hit_tokens) - slots / end
    capacity = int(np.ceil(int(np.argmax(gain)) * curve.blocks_per_slot))
    size = _size(curve, capacity, 0.0)
    points = 100 * (size.ceiling_hit_ratio - size.hit_ratio)
    return Size(
        size.capacity_blocks,
        size.capacity_tokens,
        size.hit_tokens,
        size.hit_ratio,
        size.ceiling_hit_ratio,
        points,
    )


def _size(curve: Curve, capacity: int, within_points: float) -> Size:
    hit_tokens = curve.hit_tokens_at(capacity)
    return Size(
        capacity,
        capacity * curve.block_tokens,
        hit_tokens,
        curve.ratio(hit_tokens),
        curve.ceiling_hit_ratio,
        within_points,
    )
