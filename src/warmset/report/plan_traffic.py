"""Renders what a trace says in a plan: hit rates with the device alone, with the tier, and at the ceiling."""

from typing import Any

from warmset.plan.record import Plan, Traffic
from warmset.plan.traffic import points
from warmset.report.document import Bullets, Section, Table
from warmset.units import column_format, format_counted, format_ratio, format_size, format_tokens


def traffic_payload(traffic: Traffic) -> dict[str, Any]:
    """The `traffic` object of `warmset.plan/1`."""
    rule = traffic.session_rule
    return {
        "source": traffic.source,
        "requests": traffic.requests,
        "denominator": "block_tokens",
        "total_tokens": traffic.total_tokens,
        "block_tokens": traffic.block_tokens,
        "bytes_per_block": traffic.bytes_per_block,
        "within_points": traffic.within_points,
        "device": {"capacity_blocks": traffic.device_blocks, "hit_ratio": traffic.device_hit_ratio},
        "tier": {
            "capacity_blocks": traffic.tier_blocks,
            "capacity_bytes": traffic.tier_bytes,
            "hit_ratio": traffic.tier_hit_ratio,
        },
        "recommended": {"hit_ratio": traffic.recommended_hit_ratio},
        "knee": {"capacity_bytes": traffic.knee_bytes, "hit_ratio": traffic.knee_hit_ratio},
        "reachable": {"capacity_bytes": traffic.ceiling_bytes, "hit_ratio": traffic.reachable_hit_ratio},
        "ceiling": {"hit_ratio": traffic.ceiling_hit_ratio},
        "session_rule": {
            "basis": rule.basis,
            "sessions": rule.sessions,
            "context_tokens": rule.context_tokens,
            "tier_bytes": rule.tier_bytes,
            "hit_ratio": rule.hit_ratio,
        },
        "notes": traffic.notes,
    }


def traffic_headline(traffic: Traffic, plan: Plan) -> str | None:
    """The decision in terms of traffic; None where the usual words are right."""
    alone, with_it = format_ratio(traffic.device_hit_ratio), format_ratio(traffic.recommended_hit_ratio)
    match plan.decision.verdict:
        case "leave_off":
            return (
                f"Leave offload off: the device alone serves {alone} of this traffic, and a tier adds little."
            )
        case "offload":
            size = format_size(plan.tier.recommended_bytes)
            part = "Offload what fits" if plan.tier.recommended_bytes < traffic.tier_bytes else "Offload"
            return f"{part}: a host tier of {size} raises the hit rate of this traffic from {alone} to {with_it}."
        case "add_lower_tier":
            assert plan.lower_tier is not None
            return (
                f"Add a lower tier: {format_size(plan.lower_tier.recommended_bytes)} of {plan.lower_tier.kind} raise "
                f"the hit rate of this traffic from {alone} to {with_it}."
            )
        case _:
            return None


def traffic_section(traffic: Traffic, plan: Plan) -> Section:
    """Sizes against hit rates, the session rule among them, in order of size."""
    rule = traffic.session_rule
    origin = "as given" if rule.basis == "options" else "at most under way at once in the trace"
    rows = [
        (traffic.knee_bytes, traffic.knee_hit_ratio, "tier at the knee", "where the curve bends"),
        (
            traffic.tier_bytes,
            traffic.tier_hit_ratio,
            f"tier within {points(traffic.within_points)}",
            "the smallest; this is what counts",
        ),
        (
            traffic.ceiling_bytes,
            traffic.reachable_hit_ratio,
            "tier without end",
            "more than this is never used",
        ),
        (
            rule.tier_bytes,
            rule.hit_ratio,
            "tier by the session rule",
            f"{format_counted(rule.sessions, 'session')} of {format_tokens(rule.context_tokens)}, {origin}",
        ),
    ]
    held = plan.tier.recommended_bytes
    form = column_format(max(plan.device.kv_budget_bytes, *(size for size, *_ in rows)))
    if plan.lower_tier is None and 0 < held < traffic.tier_bytes:
        rows.append((held, traffic.recommended_hit_ratio, "tier, recommended", "what the host holds"))
    table = Table(
        ("", "size", "hit rate", ""),
        (
            (
                "device alone",
                form(plan.device.kv_budget_bytes),
                format_ratio(traffic.device_hit_ratio),
                f"{format_counted(traffic.device_blocks, 'block')} of {format_tokens(traffic.block_tokens)}",
            ),
            *(
                (name, form(size), format_ratio(ratio), why)
                for size, ratio, name, why in sorted(rows)
                if size
            ),
        ),
        frozenset({1, 2}),
    )
    return Section(
        "Traffic",
        (table, Bullets(("hit rates are over the tokens covered by listed blocks", *traffic.notes))),
    )
