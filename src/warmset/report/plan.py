"""Renders a plan: the decision first, then why, the sizes side by side, what to type, and what was assumed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from warmset.plan.host import DEV_SHM
from warmset.plan.record import BreakEven, Plan
from warmset.report.document import Bullets, Code, Document, Facts, Line, Section, Table, Tone
from warmset.report.launch import next_section
from warmset.report.plan_traffic import traffic_headline, traffic_section
from warmset.units import (
    column_format,
    format_bytes,
    format_count,
    format_counted,
    format_ratio,
    format_size,
    format_tokens,
)

if TYPE_CHECKING:
    from warmset.launch import Launch

_TONES: dict[str, Tone] = {
    "leave_off": "good",
    "offload": "good",
    "add_lower_tier": "warn",
    "recompute": "warn",
    "does_not_fit": "bad",
}
_IN_BLOCKS, _IN_TIER = "warm set, in whole blocks", "warm set, in the tier"
_KINDS = {"disk": "on disk", "object": "in an object store"}
_SOURCES = {
    "metrics": "the server's own metrics",
    "log": "the server's own log",
    "kv_cache_tokens": "from the server's token count",
    "hbm_kv": "as given",
    "estimate": "estimated",
}


def document(plan: Plan, launch: "Launch | None") -> Document:
    """The whole plan for a person."""
    sections = [Section("Why", (Bullets(plan.decision.reasons),))]
    if plan.decision.fixes:
        sections.append(Section("What would change it", (Bullets(plan.decision.fixes),)))
    if plan.traffic is not None:
        sections.append(traffic_section(plan.traffic, plan))
    sections.append(Section("Sizes", _sizes(plan)))
    # What /dev/shm must hold is said by the launch's own notes, unless the one that was named is too small.
    typed: tuple[str, ...] = ()
    if launch is not None:
        room = tuple(note for note in plan.notes if note.startswith(DEV_SHM)) if launch.shm_bytes else ()
        typed = (*room, *launch.notes)
        said = typed if plan.host.dev_shm_bytes is not None else launch.notes
        sections.append(Section("Type this", (Code(launch.command), *((Bullets(said),) if said else ()))))
    sections.append(Section("Loading against computing again", (_break_even(plan.break_even),)))
    sections.append(Section("Assumed", (Bullets(plan.assumptions),)))
    own = (note for note in plan.notes if note not in typed)
    notes = (*plan.tier.conversions, *own)
    if notes:
        sections.append(Section("Notes", (Bullets(notes),)))
    if launch is not None:
        sections.append(next_section(launch))
    headline = _headline(plan) if plan.traffic is None else traffic_headline(plan.traffic, plan)
    return Document(Line(headline or _headline(plan), _TONES[plan.decision.verdict]), tuple(sections))


def _headline(plan: Plan) -> str:
    tier, demand = plan.tier, plan.demand
    warm = f"{format_counted(demand.sessions, 'session')} of {format_tokens(demand.context_tokens)}"
    match plan.decision.verdict:
        case "leave_off" if plan.device.sessions < demand.sessions:
            return (
                f"Leave offload off: {format_count(plan.device.sessions)} of {warm} fit the device, and the last all "
                "but one block."
            )
        case "leave_off":
            return f"Leave offload off: {warm} {'fits' if demand.sessions == 1 else 'fit'} the device."
        case "offload" if tier.sessions < demand.sessions and tier.recommended_bytes < (
            tier.inclusive_bytes if tier.inclusion == "inclusive" else tier.exclusive_bytes
        ):
            return f"Offload what fits: a host tier of {format_size(tier.recommended_bytes)} keeps part of {warm}."
        case "offload":
            return f"Offload: a host tier of {format_size(tier.recommended_bytes)} keeps {warm} warm."
        case "add_lower_tier":
            lower = plan.lower_tier
            assert lower is not None
            return (
                f"Add a lower tier: {format_size(lower.recommended_bytes)} {_KINDS[lower.kind]} below "
                f"{format_size(lower.staging_bytes)} of host memory keep {warm} warm."
            )
        case "recompute":
            return (
                "Recompute: no tier here holds more than the device and loads faster than the model computes."
            )
        case _:
            return (
                f"Does not fit: one session of {format_tokens(demand.context_tokens)} is more than the device "
                "holds, and no tier can fix that."
            )


def _sizes(plan: Plan) -> tuple[Table | Facts, ...]:
    demand, device, tier, fleet = plan.demand, plan.device, plan.tier, plan.fleet
    form = _form(plan)
    per_rank, many = plan.ranks > 1, fleet.replicas > 1
    rows: list[tuple[str, int, int | None, str]] = [
        (
            "warm set",
            demand.warm_set_bytes,
            demand.sessions,
            f"{format_bytes(demand.bytes_per_session)} per session, {_per_token(plan)} per token",
        ),
        *_other_currencies(plan),
        ("device pool", device.kv_budget_bytes, device.sessions, _budget(plan)),
        ("tier, inclusive rule", tier.inclusive_bytes, None, _rule(plan, "inclusive")),
        ("tier, exclusive rule", tier.exclusive_bytes, None, _rule(plan, "exclusive")),
        ("tier, recommended", tier.recommended_bytes, tier.sessions or None, _recommended(plan)),
    ]
    if tier.host_memory_bytes:
        where = f"in {DEV_SHM}" if tier.dev_shm_bytes else "pinned"
        of = "" if plan.host.ram_bytes is None else f"; the host has {format_size(plan.host.ram_bytes)}"
        rows.append(("host memory", tier.host_memory_bytes, None, where + of))
    if plan.lower_tier is not None:
        rows.append(
            ("lower tier", plan.lower_tier.recommended_bytes, demand.sessions, plan.lower_tier.storage)
        )
    headers = ["per replica", "size", "sessions"]
    if per_rank:
        headers.insert(2, f"per rank ({plan.ranks})")
    if many:
        headers.insert(3 if per_rank else 2, f"fleet ({fleet.replicas})")
    table = Table(
        (*headers, ""),
        tuple(
            (
                name,
                form(size),
                *((form(size / plan.ranks),) if per_rank else ()),
                *((form(size * fleet.replicas),) if many else ()),
                "" if sessions is None else format_count(sessions),
                remark,
            )
            for name, size, sessions, remark in rows
        ),
        frozenset(range(1, len(headers))),
    )
    return (table, Facts(_cost_rows(plan))) if plan.cost is not None else (table,)


def _form(plan: Plan) -> Callable[[float], str]:
    """How the column writes its sizes."""
    sizes = (plan.demand.device_bytes, plan.device.kv_budget_bytes, plan.tier.inclusive_bytes)
    return column_format(max(sizes))


def _other_currencies(plan: Plan) -> list[tuple[str, int, int | None, str]]:
    """The warm set as the device pool and the tier charge it, where that reads differently from its content."""
    demand, tier, form = plan.demand, plan.tier, _form(plan)
    charged = (
        (
            _IN_BLOCKS,
            demand.device_bytes,
            f"{format_bytes(demand.device_bytes_per_session)} per session on the device",
        ),
        (_IN_TIER, tier.warm_set_bytes, f"as {tier.backend} stores it"),
    )
    content = form(demand.warm_set_bytes)
    return [(name, size, None, remark) for name, size, remark in charged if form(size) != content]


def _cost_rows(plan: Plan) -> tuple[tuple[str, str, str], ...]:
    cost = plan.cost
    assert cost is not None
    each = "–" if cost.per_warm_session is None else f"{cost.per_warm_session:,.2f}"
    return (
        ("cost per warm session", each, f"{format_bytes(plan.tier.bytes_per_warm_session)} of tier each"),
        ("cost of the tier", f"{cost.total:,.2f}", f"at {cost.price_per_gib:g} per GiB"),
    )


def _per_token(plan: Plan) -> str:
    return f"{plan.bytes_per_token:,.0f} B" if plan.bytes_per_token else "nothing"


def _budget(plan: Plan) -> str:
    device, form = plan.device, _form(plan)
    source = _SOURCES[device.source]
    if device.estimated:
        source += f": {format_size(device.low_bytes)} to {format_size(device.high_bytes)}"
    if form(device.usable_bytes) != form(device.kv_budget_bytes):
        source += f"; sessions can hold {format_size(device.usable_bytes)}"
    return source


def _rule(plan: Plan, rule: str) -> str:
    tier, form = plan.tier, _form(plan)
    margin = f"(1 + {format_ratio(tier.headroom_ratio)})"
    content, charged = form(plan.demand.warm_set_bytes), form(tier.warm_set_bytes)
    warm = "warm set" if content == charged else _IN_TIER
    if rule == "inclusive":
        formula = f"{warm} × {margin}"
    elif form(plan.demand.device_bytes) == charged:
        formula = f"({warm} − device pool) × {margin}"
    else:
        formula = f"({warm} − the device's share of it) × {margin}"
    return (
        f"{formula}; applies" if tier.inclusion == rule else f"{formula}; {tier.backend} is {tier.inclusion}"
    )


def _recommended(plan: Plan) -> str:
    if not plan.tier.recommended_bytes:
        return "no tier" if plan.lower_tier is None else "host memory alone adds nothing"
    return f"{format_bytes(plan.tier.bytes_per_warm_session)} per warm session"


def _break_even(lines: tuple[BreakEven, ...]) -> Table:
    return Table(
        ("tier", "load", "tokens/s", "prefill tokens/s", "load ÷ prefill"),
        tuple(
            (
                line.label,
                "?"
                if line.load_bytes_per_second is None
                else f"{line.load_bytes_per_second / 1e9:,.1f} GB/s",
                "?" if line.load_tokens_per_second is None else format_count(line.load_tokens_per_second),
                "?"
                if line.prefill_tokens_per_second is None
                else format_count(line.prefill_tokens_per_second),
                "?" if line.ratio is None else f"{line.ratio:,.1f}×",
            )
            for line in lines
        ),
        frozenset({1, 2, 3, 4}),
    )
