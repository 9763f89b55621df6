"""Reports a measurement: the verdict, the three meters, and what they rest on."""

from typing import Any

from warmset.meters.baseline import SCHEMA, Baseline
from warmset.meters.causal import Accounts
from warmset.meters.lower import TierMeters
from warmset.meters.measurement import Measurement
from warmset.meters.meters import Lookup, Meters
from warmset.meters.quantiles import Estimate
from warmset.report.data import Payload, number
from warmset.report.document import Block, Bullets, Code, Document, Facts, Line, Section, Table, Tone
from warmset.units import format_bytes, format_count, format_duration, format_ratio, format_tokens

_GOOD = (".hit", ".miss", ".remembered_miss", ".loaded", ".stored", ".present")
TONES: dict[str, Tone] = {
    "helping": "good",
    "hurting": "bad",
    "thrashing": "bad",
    "inert": "bad",
    "no_reuse": "warn",
    "tier_too_small": "warn",
    "not_needed": "warn",
    "mixed": "warn",
    "undecided": "warn",
    "no_tier": "plain",
}


def payload(record: Measurement) -> Payload:
    """The measurement as JSON: `warmset.measure/1`."""
    m, v = record.meters, record.verdict
    return {
        "schema": SCHEMA,
        "verdict": v.name,
        "reason": v.reason,
        "summary": v.summary,
        "confidence": v.confidence,
        **window_payload(m, v.accounts),
        "tiers": [_tier(t) for t in m.tiers],
        "evidence": [
            {"text": e.text, "value": number(e.value), "unit": e.unit, "metric": e.metric or None}
            for e in v.evidence
        ],
        "next_steps": [{"text": s.text, "command": s.command} for s in v.next_steps],
        "comparisons": [
            {
                "meter": c.meter,
                "before": number(c.before),
                "after": number(c.after),
                "unit": c.unit,
                "change": c.change,
            }
            for c in v.comparisons
        ],
        "traffic_changes": list(v.traffic_changes),
        "baseline": dict(record.baseline.payload) if record.baseline else None,
        "notes": [*v.notes, *_unknown(m)],
    }


def window_payload(m: Meters, accounts: Accounts | None = None) -> Payload:
    """Window, tier and meters; a baseline has the same shape."""
    accounts = accounts or m.accounts
    return {
        "engine": {"server": m.engine.server, "version": str(m.engine.version), "assumed": m.engine_assumed},
        "window": {
            "seconds": number(m.seconds),
            "requests": number(m.requests),
            "requests_per_second": m.requests / m.seconds if m.requests is not None and m.seconds else None,
            "since_start": m.since_start,
            "instances": list(m.instances),
            "failures": [{"instance": name, "error": error} for name, error in m.failures],
        },
        "tier": {
            "connector": m.tier.connector,
            "capacity_tokens": number(m.tier.capacity_tokens),
            "capacity_bytes": number(m.tier.capacity_bytes),
            "capacity_source": m.tier.capacity_source,
            "device_pool_tokens": number(m.tier.device_pool_tokens),
            "bytes_per_token": number(m.tier.bytes_per_token),
            "bytes_per_token_source": m.tier.bytes_per_token_source,
            "chunk_tokens": number(m.tier.chunk_tokens),
        },
        "meters": {
            "hit_ratio": {
                "device": _estimate(m.hit_ratio.device),
                "external": _estimate(m.hit_ratio.external),
                "combined": _estimate(m.hit_ratio.combined),
                "external_of_queries": _estimate(m.hit_ratio.external_of_queries),
                "denominator": m.hit_ratio.denominator,
                "external_of_queries_denominator": m.sources.get("external_query_tokens"),
            },
            "tokens_by_tier": {k: number(x) for k, x in m.hit_ratio.by_tier.items()},
            "prompt_tokens": number(m.prompt_tokens),
            "device_hit_tokens": number(m.device_hit_tokens),
            "external_hit_tokens": number(m.external_hit_tokens),
            "external_query_tokens": number(m.external_query_tokens),
            "computed_tokens": number(m.computed_tokens),
            "ttft_p50_seconds": _estimate(m.ttft_p50_seconds),
            "ttft_p90_seconds": _estimate(m.ttft_p90_seconds),
            "ttft_p99_seconds": _estimate(m.ttft_p99_seconds),
            "ttft_mean_seconds": m.ttft.mean if m.ttft else None,
            "lookup_async": _lookup(m.lookup_async),
            "lookup_sync": _lookup(m.lookup_sync),
            "queue_seconds": m.queue_seconds,
            "prefill_seconds": m.prefill_seconds,
            "prefill_seconds_per_token": m.accounts.prefill_seconds_per_token,
            "prefill_saved_seconds": _estimate(accounts.saved_seconds),
            "paid_seconds": accounts.paid_seconds,
            "load_bytes": number(m.load_bytes),
            "load_seconds": m.load_seconds,
            "load_bytes_per_second": _speed(m.load_bytes, m.load_seconds),
            "store_bytes": number(m.store_bytes),
            "store_seconds": m.store_seconds,
            "store_bytes_per_second": _speed(m.store_bytes, m.store_seconds),
            "stored_tokens": number(m.tier.stored_tokens),
            "preemptions": number(m.preemptions),
            "mean_prompt_tokens": _estimate(m.mean_prompt_tokens),
            "prompt_tokens_p90": _estimate(m.prompt_tokens_p90),
            "mean_output_tokens": m.mean_output_tokens,
        },
    }


def _tier(t: TierMeters) -> Payload:
    return {
        "tier": t.tier,
        "queried_chunks": number(t.queried_chunks),
        "hit_chunks": number(t.hit_chunks),
        "hit_ratio": t.hit_ratio,
        "read_bytes": number(t.read_bytes),
        "read_seconds": t.read_seconds,
        "read_bytes_per_second": _speed(t.read_bytes, t.read_seconds),
        "write_bytes": number(t.write_bytes),
        "write_seconds": t.write_seconds,
        "write_bytes_per_second": _speed(t.write_bytes, t.write_seconds),
        "failed_loads": number(t.failed_loads),
        "failed_stores": number(t.failed_stores),
        "blocks": {name: number(count) for name, count in t.blocks.items()},
    }


def _tiers_table(m: Meters) -> Table:
    """Chunks and bytes by tier; what went wrong in it beside them."""
    rows = []
    for t in m.tiers:
        wrong = {"failed loads": t.failed_loads, "failed stores": t.failed_stores}
        wrong |= {k.partition(".")[2]: v for k, v in t.blocks.items() if not k.endswith(_GOOD)}
        rows.append(
            (
                t.tier,
                format_count(t.queried_chunks) if t.queried_chunks is not None else "",
                format_ratio(t.hit_ratio) if t.hit_ratio is not None else "",
                format_bytes(t.read_bytes) if t.read_bytes is not None else "",
                format_bytes(t.write_bytes) if t.write_bytes is not None else "",
                ", ".join(f"{format_count(v)} {k}" for k, v in wrong.items() if v),
            )
        )
    return Table(
        ("tier", "chunks asked", "found", "read", "written", "wrong"), tuple(rows), frozenset({1, 2, 3, 4})
    )


def document(record: Measurement) -> Document:
    """The measurement for a person: the answer first, then the meters in their order."""
    m, v = record.meters, record.verdict
    sections = [Section("", (Line(v.summary),)), Section("Meters", (_meters_table(m, record.baseline),))]
    accounts = v.accounts or m.accounts
    if accounts.saved_seconds is not None and m.external_hit_tokens:
        sections.append(Section("Accounts", (Facts(_account_rows(m, accounts)),)))
    if m.tiers:
        sections.append(Section("Tiers", (_tiers_table(m),)))
    sections.append(Section("Evidence", (_evidence_table(record),)))
    if v.comparisons:
        rows = tuple((c.meter, c.words(c.before), c.words(c.after), c.change) for c in v.comparisons)
        sections.append(
            Section(
                "Against the baseline",
                (Table(("meter", "before", "now", "change"), rows, frozenset({1, 2})),),
            )
        )
    if v.traffic_changes:
        sections.append(Section("Other traffic than in the baseline", (Bullets(v.traffic_changes),)))
    steps: list[Block] = []
    for step in v.next_steps:
        steps.append(Line(step.text))
        if step.command:
            steps.append(Code(step.command))
    if steps:
        sections.append(Section("Next", tuple(steps)))
    notes = (*v.notes, *_unknown(m))
    if m.failures:
        notes = (*notes, *(f"{name}: {error}" for name, error in m.failures[:10]))
        if len(m.failures) > 10:
            notes = (*notes, f"… and {len(m.failures) - 10} more servers that gave nothing")
    if notes:
        sections.append(Section("Notes", (Bullets(notes),)))
    return Document(Line(f"{v.name} ({v.confidence} confidence)", TONES[v.name]), tuple(sections))


def _meters_table(m: Meters, base: Baseline | None) -> Table:
    before: dict[str, Estimate | None] = {}
    if base is not None:
        before = {
            "combined": base.combined_hit_ratio,
            "p50": base.ttft_p50_seconds,
            "p90": base.ttft_p90_seconds,
            "p99": base.ttft_p99_seconds,
        }
    unobserved = "nothing observed" if m.ttft is not None and not m.ttft.count else ""
    rows = [
        _row("1 hit ratio, device", m.hit_ratio.device, format_ratio, None, _of(m.hit_ratio.denominator)),
        _row("  hit ratio, tier", m.hit_ratio.external, format_ratio, None, _of(m.hit_ratio.denominator)),
        _row(
            "  hit ratio, together",
            m.hit_ratio.combined,
            format_ratio,
            before.get("combined"),
            _of(m.hit_ratio.denominator),
        ),
        _row("2 TTFT p50", m.ttft_p50_seconds, format_duration, before.get("p50"), m.sources.get("ttft", "")),
        _row("  TTFT p90", m.ttft_p90_seconds, format_duration, before.get("p90"), unobserved),
        _row("3 TTFT p99", m.ttft_p99_seconds, format_duration, before.get("p99"), unobserved),
    ]
    if m.lookup_async is not None and m.lookup_async.count:
        rows.append(
            _row(
                "  lookup p99, asynchronous",
                m.lookup_async.p99_seconds,
                format_duration,
                None,
                m.lookup_async.metric,
            )
        )
    headers = ("meter", "value", "interval", "baseline", "measured by")
    if base is None:
        rows = [(a, b, c, e) for a, b, c, _, e in rows]
        headers = ("meter", "value", "interval", "measured by")  # type: ignore[assignment]
    return Table(headers, tuple(rows), frozenset({1}))


def _row(name: str, e: Estimate | None, text: Any, before: Estimate | None, source: str) -> tuple[str, ...]:
    if e is None:
        return name, "–", "", text(before.value) if before else "", source if source else "not exported"
    low = text(e.low) if e.low is not None else "?"
    high = text(e.high) if e.high is not None else "?"
    interval = "" if e.low is None and e.high is None else f"{low} – {high}"
    return name, text(e.value), interval, text(before.value) if before else "", source


def _of(denominator: str | None) -> str:
    return f"of {denominator}" if denominator else ""


def _account_rows(m: Meters, accounts: Accounts) -> tuple[tuple[str, str, str], ...]:
    rows = []
    saved = accounts.saved_seconds
    if saved is not None and saved.low is not None and saved.high is not None:
        text = f"{format_duration(saved.low)} – {format_duration(saved.high)}"
        rows.append(("prefill saved", text, f"{format_tokens(m.external_hit_tokens or 0)} from the tier"))
    if accounts.load_seconds is not None:
        speed = _speed(m.load_bytes, m.load_seconds)
        remark = f"{format_bytes(m.load_bytes or 0)}" + (f" at {format_bytes(speed)}/s" if speed else "")
        rows.append(("paid for loads", format_duration(accounts.load_seconds), remark))
        rows.append(("paid for lookups", format_duration(accounts.lookup_seconds), ""))
    else:
        rows.append(("paid for loads", "unknown", "not exported"))
    return tuple(rows)


def _evidence_table(record: Measurement) -> Table:
    rows = tuple(
        (e.text, "" if e.value is None else _value(e.value, e.unit), e.metric)
        for e in record.verdict.evidence
    )
    return Table(("what", "value", "metric"), rows, frozenset({1}))


def _value(value: float, unit: str) -> str:
    if unit == "bytes":
        return format_bytes(value)
    if unit == "seconds":
        return format_duration(value)
    return f"{format_count(value)} {unit}".rstrip()


def _unknown(m: Meters) -> list[str]:
    """Why a number is missing."""
    said = []
    if m.seconds is None:
        said.append("window.seconds is unknown: the scrapes carry no time (`warmset snapshot` writes it)")
    if m.requests is None:
        said.append("window.requests is unknown: the server exports no TTFT and no count of requests")
    if m.ttft is None:
        said.append("TTFT is not exported by this server")
    if m.external_hit_tokens is None:
        said.append("the tier's hits are not exported by this server")
    if m.load_seconds is None and m.tier.present:
        said.append("the seconds of loads are not exported by this server")
    if m.engine_assumed:
        said.append(
            f"the metric names fit {m.engine.server} {m.engine.version}; name the version with --engine if it "
            f"is another"
        )
    return said


def _estimate(e: Estimate | None) -> Payload:
    return (
        {"value": None, "low": None, "high": None}
        if e is None
        else {"value": e.value, "low": e.low, "high": e.high}
    )


def _lookup(lookup: Lookup | None) -> Payload | None:
    if lookup is None:
        return None
    return {
        "count": number(lookup.count),
        "seconds": lookup.seconds,
        "p50_seconds": _estimate(lookup.p50_seconds),
        "p99_seconds": _estimate(lookup.p99_seconds),
        "metric": lookup.metric,
    }


def _speed(size: float | None, seconds: float | None) -> float | None:
    return size / seconds if size is not None and seconds else None
