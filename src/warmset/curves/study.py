"""One question put to a trace: what does each capacity buy, and where does it stop paying."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from warmset.curves.chunks import chunked_curve, in_chunks
from warmset.curves.exact import lru_curve
from warmset.curves.policies import POLICIES, simulate
from warmset.curves.policies.pinned import pinned_hit_tokens
from warmset.curves.record import (
    MAX_CAPACITY_BLOCKS,
    POLICIES_WITHOUT_ORDER,
    Curve,
    Order,
    Weight,
    check_capacity,
)
from warmset.curves.sampled import sampled_curve
from warmset.curves.sizing import DEFAULT_WITHIN_POINTS, Size, knee, size_for
from warmset.curves.tiers import Inclusion
from warmset.curves.ttft import Speeds, mean_ttft_seconds
from warmset.errors import InputError, UnknownName
from warmset.traces.record import Trace
from warmset.units import GIB

_AUTO_POINTS = 16
Progress = Callable[[int, int], None]


def _silent(done: int, total: int) -> None:
    """Progress that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to compute.

    Attributes:
        capacities: in blocks; empty for a spread up to the capacity that reaches the ceiling.
        order: as in `lru_curve`; None is tail first, where the policy has an order of touching.
        weight, warmup_ratio: as in `lru_curve`.
        policy: one of POLICIES; all but `lru` are simulated at each capacity.
        within_points: percentage points below the ceiling that are acceptable.
        sample_ratio, seed: follow this share of blocks only; None for the exact curve.
        bytes_per_block: KV bytes of a block in the deployment asked about; None without a model.
        device_blocks: device pool above the tier whose capacities are asked; None for a single pool.
        inclusion: whether the tier also holds what the device holds.
        chunk_tokens: the tier stores whole chunks of this many tokens; None for single blocks. The device
            pool, and every capacity, is in blocks all the same.
        concurrency: running requests that hold blocks of the device pool; None leaves that out.
        speeds: for the estimate of time to first token; None leaves that out.
    """

    capacities: tuple[int, ...] = ()
    order: Order | None = None
    weight: Weight = "tokens"
    warmup_ratio: float = 0.0
    policy: str = "lru"
    within_points: float = DEFAULT_WITHIN_POINTS
    sample_ratio: float | None = None
    seed: int = 0
    bytes_per_block: float | None = None
    device_blocks: int | None = None
    inclusion: Inclusion = "inclusive"
    chunk_tokens: int | None = None
    concurrency: int | None = None
    speeds: Speeds | None = None

    @property
    def touch_order(self) -> Order | None:
        """Which end of a request is touched first; None for a policy that touching does not change."""
        return None if self.policy in POLICIES_WITHOUT_ORDER else self.order or "tail-first"


@dataclass(frozen=True, slots=True)
class Point:
    """What one capacity buys. Ratios are None where their denominator is not tokens.

    Attributes:
        capacity_blocks: of the tier (of the single pool without a device pool); capacity_bytes with a model.
        hit_tokens, hit_ratio: of both tiers, over the tokens covered by listed blocks.
        device_hit_tokens, host_hit_tokens: where they come from; None without a device pool.
        hit_ratio_of_prompt: over all prompt tokens.
        points_per_gib: percentage points that each further GiB brought since the point before.
        mean_ttft_seconds: estimate, None without speeds.
    """

    capacity_blocks: int
    capacity_bytes: int | None
    hit_tokens: int
    hit_ratio: float
    hit_ratio_of_prompt: float | None
    device_hit_tokens: int | None
    host_hit_tokens: int | None
    points_per_gib: float | None
    mean_ttft_seconds: float | None


@dataclass(frozen=True, slots=True)
class Study:
    """The answer: the LRU curve behind it, the points asked for, and the capacities worth a look.

    Attributes:
        question, source, curve, points: what was asked of what, and what was found.
        knee, size: where LRU bends, and its smallest capacity close enough to the ceiling; `ceiling_blocks`
            reaches the ceiling. With a device pool these are capacities of the tier: 0 where the pool is enough.
        longest_request_blocks: blocks of the longest request; None for a trace that was streamed.
        skipped: what reading left out: reason → requests.
    """

    question: Question
    source: str
    curve: Curve
    points: tuple[Point, ...]
    knee: Size
    size: Size
    ceiling_blocks: int
    longest_request_blocks: int | None = None
    skipped: Mapping[str, int] = field(default_factory=dict)


def study(trace: Trace, question: Question, *, progress: Progress = _silent) -> Study:
    """Answer `question` from a trace in memory; InputError for a question that does not fit together.

    `progress` is told (capacities done, capacities asked) where each is simulated.
    """
    check(question)
    order = question.order or "tail-first"
    if question.sample_ratio is not None:
        warmup = int(trace.requests * question.warmup_ratio)
        sampled = sampled_curve(
            trace, ratio=question.sample_ratio, seed=question.seed, warmup_requests=warmup
        )
        return _answer(trace, sampled, sampled, question, trace.source, progress)
    blocks = tier = lru_curve(trace, order=order, weight=question.weight, warmup_ratio=question.warmup_ratio)
    if question.chunk_tokens is not None:
        tier = chunked_curve(
            trace,
            question.chunk_tokens,
            order=order,
            weight=question.weight,
            warmup_ratio=question.warmup_ratio,
        )
    return _answer(trace, tier, blocks, question, trace.source, progress)


def study_curve(curve: Curve, question: Question, *, source: str) -> Study:
    """Answer `question` from a sampled curve, without the trace."""
    check(question)
    return _answer(None, curve, curve, question, source, _silent)


def check(question: Question) -> None:
    """Raise InputError for a question that does not fit together, before a trace is read for it."""
    for capacity in question.capacities:
        check_capacity(capacity)
    if question.policy not in POLICIES:
        raise UnknownName("policy", question.policy, POLICIES, hint=f"policies: {', '.join(POLICIES)}")
    if not 0 <= question.within_points <= 100:
        raise InputError(
            f"`{question.within_points:g}` points are not between 0 and 100",
            hint="give percentage points below the ceiling, such as `1`",
        )
    plain = question.order != "head-first" and question.weight == "tokens" and question.policy == "lru"
    if question.sample_ratio is not None and not plain:
        raise InputError(
            "a sampled curve is LRU, tail first and token-weighted",
            hint="leave out `--sample`, or leave out `--order`, `--weight` and `--policy`",
        )
    if question.policy != "lru" and question.order == "head-first":
        raise InputError(
            f"policy `{question.policy}` has its own order of touching",
            hint="leave out `--order`: head first belongs to `lru`",
        )
    if question.policy in POLICIES_WITHOUT_ORDER and question.order is not None:
        raise InputError(
            f"touching changes nothing under policy `{question.policy}`, so it has no order",
            hint="leave out `--order`",
        )
    if question.concurrency is not None and (question.policy != "lru" or question.weight != "tokens"):
        raise InputError(
            "`--concurrency` is about an LRU pool and tokens", hint="leave out `--policy` and `--weight`"
        )
    for name, value in (("chunk-tokens", question.chunk_tokens), ("concurrency", question.concurrency)):
        if value is not None and question.sample_ratio is not None:
            raise InputError(f"`--{name}` needs the whole trace", hint="leave out `--sample`")
    if (
        question.chunk_tokens is not None
        and question.concurrency is not None
        and question.device_blocks is None
    ):
        raise InputError(
            "running requests hold blocks of a device pool, and a pool holds no chunks",
            hint="add the device pool with `--device-capacity`, or leave out `--chunk-tokens`",
        )
    if question.policy != "lru" and question.device_blocks is not None:
        raise InputError(
            f"policy `{question.policy}` is simulated for a single pool",
            hint="leave out the device pool, or the policy",
        )
    if question.weight == "blocks" and question.speeds is not None:
        raise InputError("a time estimate needs tokens", hint="leave out `--weight blocks`")


def _answer(
    trace: Trace | None,
    curve: Curve,
    blocks: Curve,
    question: Question,
    source: str,
    progress: Progress,
) -> Study:
    """`curve` is that of the tier, `blocks` that of a pool of single blocks."""
    device = question.device_blocks
    on_device: int | None = None
    if device is not None:
        check_capacity(device)
        on_device = _pool_hits(trace, blocks, question, device)
    bend, size, top = (
        _of_tier(found, curve, question, on_device)
        for found in (
            knee(curve),
            size_for(curve, within_points=question.within_points),
            size_for(curve, within_points=0),
        )
    )
    capacities = tuple(sorted(set(question.capacities))) or _spread(
        curve,
        (bend.capacity_blocks, size.capacity_blocks),
        # An inclusive tier smaller than the device pool adds nothing: no need to show it.
        question.device_blocks or 1 if question.inclusion == "inclusive" else 1,
    )
    if device is not None and on_device is not None:
        # As in `two_tiers`; a pool with pinned blocks, or a tier of chunks, has a curve of its own.
        above = device if question.inclusion == "exclusive" else 0
        totals = [max(on_device, curve.hit_tokens_at(above + capacity)) for capacity in capacities]
    elif question.policy != "lru":
        assert trace is not None
        totals = _simulated(trace, question, capacities, progress)
    else:
        totals = []
        for done, capacity in enumerate(capacities, 1):
            totals.append(_pool_hits(trace, curve, question, capacity))
            progress(done, len(capacities))
    points = _points(curve, question, capacities, totals, on_device)
    longest = None if trace is None else int(np.diff(trace.offsets).max())
    return Study(question, source, curve, points, bend, size, top.capacity_blocks, longest)


def _of_tier(size: Size, curve: Curve, question: Question, on_device: int | None) -> Size:
    """What is left for a tier to hold of a capacity that device pool and tier have together."""
    if question.device_blocks is None or on_device is None:
        return size
    blocks, hits = size.capacity_blocks, size.hit_tokens
    if question.inclusion == "exclusive":
        blocks = max(1, blocks - question.device_blocks)
    if on_device >= hits:
        blocks, hits = 0, on_device
    return replace(
        size,
        capacity_blocks=blocks,
        capacity_tokens=blocks * curve.block_tokens,
        hit_tokens=hits,
        hit_ratio=curve.ratio(hits),
    )


def _pool_hits(trace: Trace | None, curve: Curve, question: Question, capacity: int) -> int:
    if question.concurrency is None or trace is None:
        return curve.hit_tokens_at(capacity)
    return pinned_hit_tokens(trace, capacity, question.concurrency, warmup_ratio=question.warmup_ratio)


def _simulated(trace: Trace, question: Question, capacities: Sequence[int], progress: Progress) -> list[int]:
    blocks = 1
    if question.chunk_tokens is not None:
        blocks = question.chunk_tokens // trace.block_tokens
        trace = in_chunks(trace, question.chunk_tokens)
    chunks = [capacity // blocks for capacity in capacities]
    hits = iter(
        simulate(
            trace,
            question.policy,
            [count for count in chunks if count],
            weight=question.weight,
            warmup_ratio=question.warmup_ratio,
            progress=progress,
        )
    )
    unit = blocks if question.weight == "blocks" else 1
    return [next(hits) * unit if count else 0 for count in chunks]


def _points(
    curve: Curve,
    question: Question,
    capacities: Sequence[int],
    totals: Sequence[int],
    on_device: int | None,
) -> tuple[Point, ...]:
    counted = curve.requests - curve.warmup_requests
    points = []
    before_bytes, before_ratio = 0.0, curve.ratio(on_device or 0)
    for capacity, total in zip(capacities, totals, strict=True):
        size_bytes = None if question.bytes_per_block is None else capacity * question.bytes_per_block
        ratio = curve.ratio(total)
        gain = None
        if size_bytes is not None:
            gain = 100 * (ratio - before_ratio) / ((size_bytes - before_bytes) / GIB)
            before_bytes, before_ratio = size_bytes, ratio
        ttft = None
        if question.speeds is not None:
            # A single pool is on the device: its hits are not loaded.
            device_hits = total if on_device is None else on_device
            ttft = mean_ttft_seconds(
                counted, curve.prompt_tokens, device_hits, total - device_hits, question.speeds
            )
        of_prompt = None
        if question.weight == "tokens" and curve.prompt_tokens:
            of_prompt = total / curve.prompt_tokens
        points.append(
            Point(
                capacity,
                None if size_bytes is None else round(size_bytes),
                total,
                ratio,
                of_prompt,
                on_device,
                None if on_device is None else total - on_device,
                gain,
                ttft,
            )
        )
    return tuple(points)


def _spread(curve: Curve, wanted: Sequence[int], floor: int) -> tuple[int, ...]:
    """Capacities on a log scale that span the bend of the curve, with the ones named in the answer."""
    top = max(1, curve.ceiling_capacity_blocks)
    # A sample has nothing to say about a handful of followed blocks.
    resolved = round(curve.blocks_per_slot * 10) if curve.sampling else 1
    low = min(top, max(floor, resolved, round(top / 1000)))
    spread = np.geomspace(low, top, _AUTO_POINTS)
    # Two significant digits read better; the end stays exact.
    rounded = {round(float(f"{value:.2g}")) for value in spread[:-1]} | {top} | set(wanted)
    return tuple(sorted(c for c in rounded if 1 <= c <= min(max(top, 1), MAX_CAPACITY_BLOCKS)))
