"""One question put to a trace: what does each capacity buy, and where does it stop paying."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from warmset.curves.exact import lru_curve
from warmset.curves.policies import POLICIES, simulate
from warmset.curves.policies.pinned import pinned_hit_tokens
from warmset.curves.record import MAX_CAPACITY_BLOCKS, Curve, Order, Weight, check_capacity
from warmset.curves.sampled import sampled_curve
from warmset.curves.sizing import DEFAULT_WITHIN_POINTS, Size, knee, size_for
from warmset.curves.tiers import Inclusion, two_tiers
from warmset.curves.ttft import Speeds, mean_ttft_seconds
from warmset.errors import InputError, UnknownName
from warmset.traces.record import Trace
from warmset.units import GIB

_AUTO_POINTS = 16


@dataclass(frozen=True, slots=True)
class Question:
    """What to compute.

    Attributes:
        capacities: in blocks; empty for a spread up to the capacity that reaches the ceiling.
        order, weight, warmup_ratio: as in `lru_curve`.
        policy: one of POLICIES; all but `lru` are simulated at each capacity.
        within_points: percentage points below the ceiling that are acceptable.
        sample_ratio, seed: follow this share of blocks only; None for the exact curve.
        bytes_per_block: KV bytes of a block in the deployment asked about; None without a model.
        device_blocks: device pool above the tier whose capacities are asked; None for a single pool.
        inclusion: whether the tier also holds what the device holds.
        concurrency: running requests that hold blocks of the device pool; None leaves that out.
        speeds: for the estimate of time to first token; None leaves that out.
    """

    capacities: tuple[int, ...] = ()
    order: Order = "tail-first"
    weight: Weight = "tokens"
    warmup_ratio: float = 0.0
    policy: str = "lru"
    within_points: float = DEFAULT_WITHIN_POINTS
    sample_ratio: float | None = None
    seed: int = 0
    bytes_per_block: float | None = None
    device_blocks: int | None = None
    inclusion: Inclusion = "inclusive"
    concurrency: int | None = None
    speeds: Speeds | None = None


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

    `skipped` is what reading left out: reason → requests.
    """

    question: Question
    source: str
    curve: Curve
    points: tuple[Point, ...]
    knee: Size
    size: Size
    skipped: Mapping[str, int] = field(default_factory=dict)


def study(trace: Trace, question: Question) -> Study:
    """Answer `question` from a trace in memory; InputError for a question that does not fit together."""
    _check(question)
    if question.sample_ratio is None:
        curve = lru_curve(
            trace, order=question.order, weight=question.weight, warmup_ratio=question.warmup_ratio
        )
    else:
        warmup = int(trace.requests * question.warmup_ratio)
        curve = sampled_curve(trace, ratio=question.sample_ratio, seed=question.seed, warmup_requests=warmup)
    return _answer(trace, curve, question, trace.source)


def study_curve(curve: Curve, question: Question, *, source: str) -> Study:
    """Answer `question` from a sampled curve, without the trace."""
    _check(question)
    if question.concurrency is not None:
        raise InputError("`--concurrency` needs the whole trace", hint="leave out `--sample`")
    return _answer(None, curve, question, source)


def _check(question: Question) -> None:
    for capacity in question.capacities:
        check_capacity(capacity)
    if question.policy not in POLICIES:
        raise UnknownName("policy", question.policy, POLICIES, hint=f"policies: {', '.join(POLICIES)}")
    if not 0 <= question.within_points <= 100:
        raise InputError(
            f"`{question.within_points:g}` points are not between 0 and 100",
            hint="give percentage points below the ceiling, such as `1`",
        )
    plain = question.order == "tail-first" and question.weight == "tokens" and question.policy == "lru"
    if question.sample_ratio is not None and not plain:
        raise InputError(
            "a sampled curve is LRU, tail first and token-weighted",
            hint="leave out `--sample`, or leave out `--order`, `--weight` and `--policy`",
        )
    if question.policy != "lru" and question.order != "tail-first":
        raise InputError(
            f"policy `{question.policy}` has its own order of touching",
            hint="leave out `--order`: it belongs to `lru`",
        )
    if question.concurrency is not None and (question.policy != "lru" or question.weight != "tokens"):
        raise InputError(
            "`--concurrency` is about an LRU pool and tokens", hint="leave out `--policy` and `--weight`"
        )
    if question.policy != "lru" and question.device_blocks is not None:
        raise InputError(
            f"policy `{question.policy}` is simulated for a single pool",
            hint="leave out the device pool, or the policy",
        )
    if question.weight == "blocks" and question.speeds is not None:
        raise InputError("a time estimate needs tokens", hint="leave out `--weight blocks`")


def _answer(trace: Trace | None, curve: Curve, question: Question, source: str) -> Study:
    bend, size = knee(curve), size_for(curve, within_points=question.within_points)
    capacities = tuple(sorted(set(question.capacities))) or _spread(
        curve,
        (bend.capacity_blocks, size.capacity_blocks),
        # An inclusive tier smaller than the device pool adds nothing: no need to show it.
        question.device_blocks or 1 if question.inclusion == "inclusive" else 1,
    )
    device = question.device_blocks
    on_device: int | None = None
    if device is not None:
        check_capacity(device)
        on_device = _pool_hits(trace, curve, question, device)
    if device is not None and on_device is not None:
        totals = []
        for capacity in capacities:
            both = two_tiers(curve, device, capacity, inclusion=question.inclusion)
            totals.append(max(on_device, both.hit_tokens))
    elif question.policy == "lru":
        totals = [_pool_hits(trace, curve, question, capacity) for capacity in capacities]
    else:
        assert trace is not None
        totals = simulate(
            trace,
            question.policy,
            capacities,
            weight=question.weight,
            warmup_ratio=question.warmup_ratio,
        )
    return Study(question, source, curve, _points(curve, question, capacities, totals, on_device), bend, size)


def _pool_hits(trace: Trace | None, curve: Curve, question: Question, capacity: int) -> int:
    if question.concurrency is None or trace is None:
        return curve.hit_tokens_at(capacity)
    return pinned_hit_tokens(trace, capacity, question.concurrency, warmup_ratio=question.warmup_ratio)


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
