"""Reports a lab: predicted against measured, and the three meters without and with the tier."""

from collections.abc import Callable

from warmset.lab.record import Hits, LabResult
from warmset.meters import baseline
from warmset.meters.measurement import Measurement
from warmset.meters.meters import Meters
from warmset.meters.quantiles import Estimate
from warmset.report import measure
from warmset.report.data import Payload
from warmset.report.document import Bullets, Document, Facts, Line, Section, Table
from warmset.units import format_count, format_counted, format_duration, format_ratio


def baseline_of(m: Meters) -> baseline.Baseline:
    """The run without a tier as what the run with it is held against."""
    return baseline.of(m, {"verdict": None, **measure.window_payload(m)})


def payload(record: LabResult) -> Payload:
    """The lab as JSON: `warmset.lab/1`."""
    return {
        "schema": "warmset.lab/1",
        "workload": record.workload,
        "requests": record.requests,
        "seed": record.seed,
        "concurrency": record.concurrency,
        "backend": record.backend,
        "block_tokens": record.block_tokens,
        "device_blocks": record.device_blocks,
        "tier_blocks": record.tier_blocks,
        "blocks_per_chunk": record.blocks_per_chunk,
        "prompt_tokens": record.prompt_tokens,
        "verdict": record.on.verdict.name,
        "summary": record.on.verdict.summary,
        "predicted": _hits(record.predicted),
        "measured": _hits(record.measured),
        "predicted_off": None if record.predicted_off is None else _hits(record.predicted_off),
        "measured_off": None if record.measured_off is None else _hits(record.measured_off),
        "exact": record.exact,
        "difference_ratio": record.difference_ratio,
        "outputs_identical": record.outputs_identical,
        "off": None if record.off is None else measure.payload(record.off),
        "on": measure.payload(record.on),
        "run_dir": str(record.run_dir),
        "notes": list(record.notes),
    }


def document(record: LabResult) -> Document:
    """The lab for a person: the verdict, the meters before and after, and how good the prediction was."""
    verdict = record.on.verdict
    sections = [
        Section("", (Line(verdict.summary),)),
        Section("Meters", (_meters(record.off, record.on),)),
        Section("Hit tokens, predicted and measured", (_predictions(record),)),
        Section("Run", (Facts(_facts(record)),)),
    ]
    if record.notes:
        sections.append(Section("Notes", (Bullets(record.notes),)))
    return Document(
        Line(f"{verdict.name} ({verdict.confidence} confidence)", measure.TONES[verdict.name]),
        tuple(sections),
    )


def _hits(hits: Hits) -> Payload:
    return {
        "device_hit_tokens": hits.device_hit_tokens,
        "host_hit_tokens": hits.host_hit_tokens,
        "disk_hit_tokens": hits.disk_hit_tokens,
        "external_hit_tokens": hits.external_hit_tokens,
    }


def _meters(off: Measurement | None, on: Measurement) -> Table:
    rows = (
        ("1 hit ratio, device", lambda m: m.hit_ratio.device, format_ratio),
        ("  hit ratio, tier", lambda m: m.hit_ratio.external, format_ratio),
        ("  hit ratio, together", lambda m: m.hit_ratio.combined, format_ratio),
        ("2 TTFT p50", lambda m: m.ttft_p50_seconds, format_duration),
        ("3 TTFT p99", lambda m: m.ttft_p99_seconds, format_duration),
    )
    return Table(
        ("meter", "offload off", "offload on"),
        tuple(
            (name, "–" if off is None else _cell(off, pick, text), _cell(on, pick, text))
            for name, pick, text in rows
        ),
        frozenset({1, 2}),
    )


def _cell(
    of: Measurement | None, pick: Callable[[Meters], Estimate | None], text: Callable[[float], str]
) -> str:
    estimate = None if of is None else pick(of.meters)
    return "–" if estimate is None else text(estimate.value)


def _predictions(record: LabResult) -> Table:
    rows = [
        (name, _count(predicted), _count(measured), _difference(predicted, measured))
        for name, predicted, measured in (
            ("device", record.predicted.device_hit_tokens, record.measured.device_hit_tokens),
            ("host tier", record.predicted.host_hit_tokens, record.measured.host_hit_tokens),
            ("disk tier", record.predicted.disk_hit_tokens, record.measured.disk_hit_tokens),
            ("tiers together", record.predicted.external_hit_tokens, record.measured.external_hit_tokens),
        )
        if predicted is not None or measured
    ]
    return Table(("where", "predicted", "measured", "difference"), tuple(rows), frozenset({1, 2, 3}))


def _facts(record: LabResult) -> tuple[tuple[str, str, str], ...]:
    rows = [
        ("workload", record.workload, f"{format_counted(record.requests, 'request')}, seed {record.seed}"),
        ("prompt tokens", format_count(record.prompt_tokens), f"{record.concurrency} in flight"),
        ("backend", record.backend, ""),
    ]
    if record.device_blocks is not None:
        remark = f"{record.block_tokens} tokens each; one is kept by the server"
        rows.append(("device pool", format_counted(record.device_blocks, "block"), remark))
    if record.tier_blocks is not None:
        remark = "" if record.blocks_per_chunk == 1 else f"chunks of {record.blocks_per_chunk} blocks"
        rows.append(("host tier", format_counted(record.tier_blocks, "block"), remark))
    if record.outputs_identical is not None:
        rows.append(
            ("outputs", "identical" if record.outputs_identical else "different", "offload off and on")
        )
    rows.append(("run directory", str(record.run_dir), "scrapes, trace, logs, requests"))
    return tuple(rows)


def _count(value: int | None) -> str:
    return "–" if value is None else format_count(value)


def _difference(predicted: int | None, measured: int | None) -> str:
    if predicted is None or measured is None:
        return ""
    return "none" if predicted == measured else f"{measured - predicted:+,}"
