"""Sizes the tier by traffic instead of by sessions: the hit-rate curve of a trace, in this deployment's bytes."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from warmset.geometry import Footprint
from warmset.plan.charge import Charge
from warmset.plan.decide import Outcome, Sizes
from warmset.plan.record import Decision, Device, SessionRule, Traffic
from warmset.plan.request import PlanRequest
from warmset.units import format_counted, format_ratio, format_size

if TYPE_CHECKING:
    from warmset.curves import Curve
    from warmset.traces.record import Trace


class Hits(NamedTuple):
    """What device and tier serve of one trace.

    `device` is the LRU curve in the trace's own blocks, `tier` that in chunks of the backend (the same curve where
    chunks are no larger; None where no prompt fills one). `bytes_per_token` is what the tier stores for a token.
    """

    device: "Curve"
    tier: "Curve | None"
    device_tokens: int
    bytes_per_token: Fraction
    is_inclusive: bool
    within_points: float

    def on_device(self, share: float = 1.0) -> int:
        """Tokens that the device serves, or would with `share` of its pool."""
        return self.device.hit_tokens_at(int(self.device_tokens * share) // self.device.block_tokens)

    def with_tier(self, tier_bytes: int) -> int:
        """Tokens that the device and a tier of `tier_bytes` serve."""
        if self.tier is None:
            return self.on_device()
        tokens = int(tier_bytes / self.bytes_per_token) + (0 if self.is_inclusive else self.device_tokens)
        return max(self.on_device(), self.tier.hit_tokens_at(tokens // self.tier.block_tokens))

    def ratio(self, tokens: int) -> float:
        """Over the tokens covered by listed blocks, whole chunks or not."""
        return self.device.ratio(tokens)

    @property
    def reachable(self) -> int:
        """Tokens that the device and a tier without end serve."""
        return max(self.on_device(), 0 if self.tier is None else self.tier.ceiling_hit_tokens)

    @property
    def enough(self) -> int:
        """The fewest tokens that are close enough to that."""
        return max(0, math.ceil(self.reachable - self.within_points / 100 * self.device.total_tokens))

    def bytes_for(self, tokens: int) -> int:
        """The smallest tier with which `tokens` are served; 0 where the device does."""
        if self.tier is None or tokens <= self.on_device():
            return 0
        held = self.tier.capacity_for(tokens) * self.tier.block_tokens
        return math.ceil(
            (held if self.is_inclusive else max(0, held - self.device_tokens)) * self.bytes_per_token
        )


def whole_blocks(trace: "Trace", context_tokens: int, maximum: int | None) -> int:
    """`context_tokens` in whole blocks of the trace: one partial block must not count in the price of every token."""
    whole = -(-context_tokens // trace.block_tokens) * trace.block_tokens
    return context_tokens if maximum is not None and whole > maximum else whole


def hits_of(
    trace: "Trace",
    within_points: float,
    context_tokens: int,
    pool_bytes: int,
    alone: Footprint,
    charged: Charge,
    *,
    reserved_blocks: int,
) -> Hits:
    """Put `trace` to a deployment: `charged` is what its tier, `alone` what its device takes for `context_tokens`.

    The server keeps `reserved_blocks` of the pool to itself.
    """
    from warmset.curves import in_chunks, lru_curve

    device = lru_curve(trace)
    tier: Curve | None = device
    if charged.chunk_tokens > trace.block_tokens and not _unknown_chunks(trace, charged):
        fills_one = bool((trace.input_tokens >= charged.chunk_tokens).any())
        tier = lru_curve(in_chunks(trace, charged.chunk_tokens)) if fills_one else None
    return Hits(
        device=device,
        tier=tier,
        device_tokens=alone.pool_tokens(pool_bytes, context_tokens, reserved_blocks=reserved_blocks),
        bytes_per_token=charged.session_bytes / context_tokens or Fraction(1),
        is_inclusive=charged.is_inclusive,
        within_points=within_points,
    )


def traffic_sizes(hits: Hits) -> Sizes:
    """The tier that is close enough to what can be reached, for `weigh`: both rules come down to one size here."""
    wanted = hits.bytes_for(hits.enough)
    return Sizes(
        warm_set_bytes=wanted,
        inclusive_bytes=wanted,
        exclusive_bytes=wanted,
        least_bytes=wanted,
        device_equivalent_bytes=math.ceil(hits.device_tokens * hits.bytes_per_token),
    )


def leave_off(hits: Hits, device: Device) -> Decision:
    """The device is close enough to what can be reached already."""
    alone = f"the device alone serves {format_ratio(hits.ratio(hits.on_device()))} of the tokens in blocks"
    if hits.tier is None:
        return Decision(verdict="leave_off", reasons=(alone, "no prompt is as long as one chunk of the tier"))
    reasons = [
        f"{alone}, and with a tier without end it would be {format_ratio(hits.ratio(hits.reachable))}: no more than "
        f"{points(hits.within_points)} to be had"
    ]
    low = hits.on_device(device.low_bytes / device.kv_budget_bytes)
    if low < hits.enough:
        reasons.append(
            f"with the low estimate of {format_size(device.low_bytes)} it would be {format_ratio(hits.ratio(low))} "
            "alone: measure with `--metrics` or `--log`"
        )
    return Decision(verdict="leave_off", reasons=tuple(reasons))


def need(hits: Hits, wanted: int, device: Device) -> tuple[str, ...]:
    """Why a tier of `wanted` bytes is worth a thought."""
    high = hits.on_device(device.high_bytes / device.kv_budget_bytes)
    at_best = (
        f"with the high estimate of {format_size(device.high_bytes)} the device alone would serve "
        f"{format_ratio(hits.ratio(high))}, which is enough: measure with `--metrics` or `--log`"
    )
    return (
        f"the device alone serves {format_ratio(hits.ratio(hits.on_device()))} of the tokens in blocks; with a tier "
        f"of {format_size(wanted)} it is {format_ratio(hits.ratio(hits.with_tier(wanted)))}, and no tier reaches more "
        f"than {format_ratio(hits.ratio(hits.reachable))}",
        *((at_best,) if high >= hits.enough else ()),
    )


def traffic_of(
    request: PlanRequest, hits: Hits, device: Device, charged: Charge, rule: Sizes, outcome: Outcome
) -> Traffic:
    """The record: `rule` is what the session rule says, `outcome` what the plan recommends."""
    from warmset.curves import knee

    trace = request.trace
    assert trace is not None
    held_bytes = outcome.recommended_bytes if outcome.lower is None else outcome.lower.recommended_bytes
    wanted = hits.bytes_for(hits.enough)
    knee_bytes = 0 if hits.tier is None else hits.bytes_for(knee(hits.tier).hit_tokens)
    rule_bytes = rule.inclusive_bytes if hits.is_inclusive else rule.exclusive_bytes
    return Traffic(
        source=trace.source,
        requests=trace.requests,
        block_tokens=trace.block_tokens,
        bytes_per_block=float(hits.bytes_per_token * trace.block_tokens),
        total_tokens=hits.device.total_tokens,
        within_points=hits.within_points,
        device_blocks=hits.device_tokens // trace.block_tokens,
        device_hit_ratio=hits.ratio(hits.on_device()),
        tier_blocks=int(wanted / hits.bytes_per_token) // trace.block_tokens,
        tier_bytes=wanted,
        tier_hit_ratio=hits.ratio(hits.with_tier(wanted)),
        recommended_hit_ratio=hits.ratio(hits.with_tier(held_bytes)),
        reachable_hit_ratio=hits.ratio(hits.reachable),
        ceiling_hit_ratio=hits.device.ceiling_hit_ratio,
        ceiling_bytes=hits.bytes_for(hits.reachable),
        knee_bytes=knee_bytes,
        knee_hit_ratio=hits.ratio(hits.with_tier(knee_bytes)),
        session_rule=SessionRule(
            basis="options" if request.sessions_given else "trace",
            sessions=request.sessions,
            context_tokens=request.context_tokens,
            tier_bytes=rule_bytes,
            hit_ratio=hits.ratio(hits.with_tier(rule_bytes)),
        ),
        notes=tuple(_notes(trace, device, charged)),
    )


def points(count: float) -> str:
    """Percentage points in words."""
    return f"{count:g} point" if count == 1 else f"{count:g} points"


def _notes(trace: "Trace", device: Device, charged: Charge) -> list[str]:
    said = ["the trace is taken as the traffic of one replica, and the whole device pool as free for reuse"]
    longest = int(trace.input_tokens.max())
    if longest > device.max_context_tokens:
        over = int((trace.input_tokens > device.max_context_tokens).sum())
        said.append(
            f"{over:,} of {format_counted(trace.requests, 'prompt')} {'is' if over == 1 else 'are'} longer than the "
            f"{device.max_context_tokens:,} tokens that model and device allow, the longest {longest:,}: "
            f"{'it' if over == 1 else 'they'} would be refused"
        )
    if charged.chunk_tokens > trace.block_tokens and _unknown_chunks(trace, charged):
        said.append(
            f"the tier stores chunks of {charged.chunk_tokens} tokens, which blocks of this trace do not form: what "
            "tails lose is not in these figures"
        )
    return said


def _unknown_chunks(trace: "Trace", charged: Charge) -> bool:
    return trace.tokens_per_block is not None or charged.chunk_tokens % trace.block_tokens != 0
