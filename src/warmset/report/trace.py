"""Reports what a trace holds, and what was written."""

from typing import Any

from warmset.report.document import Bullets, Document, Facts, Line, Section, Table
from warmset.traces.info import Distribution, TraceInfo
from warmset.traces.reading import Reading
from warmset.traces.record import Trace
from warmset.units import format_count, format_counted, format_duration, format_ratio, format_tokens


def payload(reading: Reading, info: TraceInfo) -> dict[str, Any]:
    """`warmset.trace-info/1`."""
    return {
        "schema": "warmset.trace-info/1",
        "source": reading.trace.source,
        "format": reading.format,
        "requests": info.requests,
        "accesses": info.accesses,
        "unique_blocks": info.unique_blocks,
        "block_tokens": info.block_tokens,
        "span_seconds": info.span_seconds,
        "total_tokens": info.block_tokens_total,
        "prompt_tokens": info.prompt_tokens,
        "output_tokens": info.output_tokens,
        "denominator": "block_tokens",
        "ceiling": {
            "hit_tokens": info.ceiling_hit_tokens,
            "hit_ratio": info.ceiling_hit_ratio,
            "hit_ratio_of_prompt": _share(info.ceiling_hit_tokens, info.prompt_tokens),
        },
        "reuse": {
            "same_session": _reuse(info.same_session_tokens, info),
            "shared_prefix": _reuse(info.shared_prefix_tokens, info),
        },
        "sessions": info.sessions,
        "sessions_from": info.sessions_from,
        "input_tokens_per_request": _spread(info.input),
        "output_tokens_per_request": None if info.output is None else _spread(info.output),
        "blocks_per_request": _spread(info.blocks),
        "skipped_requests": sum(reading.skipped.values()),
        "skipped": _skipped(reading),
        "notes": _notes(reading, info),
    }


def document(reading: Reading, info: TraceInfo) -> Document:
    """Ceiling first: whether any tier can help this traffic."""
    ceiling = info.ceiling_hit_ratio
    best = "no block has tokens" if ceiling is None else f"an infinite tier hits {format_ratio(ceiling)}"
    facts = (
        ("requests", format_count(info.requests), ""),
        ("span", "unknown" if info.span_seconds is None else format_duration(info.span_seconds), ""),
        ("sessions", format_count(info.sessions), _SESSIONS_FROM[info.sessions_from]),
        ("block accesses", format_count(info.accesses), f"{format_tokens(info.block_tokens)} per block"),
        ("unique blocks", format_count(info.unique_blocks), ""),
        ("prompt tokens", format_count(info.prompt_tokens), ""),
        (
            "block tokens",
            format_count(info.block_tokens_total),
            "covered by listed blocks; the denominator of hit rates",
        ),
    )
    reuse = (
        ("same session", *_row(info.same_session_tokens, info)),
        ("shared prefix, other sessions", *_row(info.shared_prefix_tokens, info)),
        ("ceiling", *_row(info.ceiling_hit_tokens, info)),
    )
    lengths = [("input tokens", info.input), ("output tokens", info.output), ("blocks", info.blocks)]
    sections = [
        Section("", (Facts(facts),)),
        Section("Reuse", (Table(("kind", "tokens", "of block tokens"), reuse, frozenset({1, 2})),)),
        Section(
            "Per request",
            (
                Table(
                    ("count", "mean", "p50", "p90", "p99", "max"),
                    tuple((name, *_numbers(values)) for name, values in lengths if values is not None),
                    frozenset(range(1, 6)),
                ),
            ),
        ),
    ]
    remarks = [
        f"{format_count(count)} skipped: {reason} (first at line {reading.first_lines[reason]})"
        for reason, count in reading.skipped.items()
    ] + _notes(reading, info)
    if remarks:
        sections.append(Section("Notes", (Bullets(tuple(remarks)),)))
    return Document(
        Line(f"{format_counted(info.requests, 'request')}; {best} of block tokens"), tuple(sections)
    )


def written_payload(path: str, form: str, trace: Trace, reading: Reading | None) -> dict[str, Any]:
    """`warmset.trace-written/1`."""
    return {
        "schema": "warmset.trace-written/1",
        "path": path,
        "format": form,
        "source": trace.source,
        "requests": trace.requests,
        "accesses": trace.accesses,
        "unique_blocks": trace.unique_blocks,
        "block_tokens": trace.block_tokens,
        "skipped_requests": 0 if reading is None else sum(reading.skipped.values()),
        "skipped": {} if reading is None else _skipped(reading),
        "notes": [] if reading is None else list(reading.notes),
    }


def written_document(path: str, form: str, trace: Trace, reading: Reading | None) -> Document:
    """One line on what was written, and what was left out."""
    headline = Line(
        f"wrote {path}: {format_counted(trace.requests, 'request')},"
        f" {format_counted(trace.accesses, 'block access')} ({form})"
    )
    remarks = [] if reading is None else [f"{n} skipped: {reason}" for reason, n in reading.skipped.items()]
    remarks += [] if reading is None else list(reading.notes)
    return Document(headline, (Section("", (Bullets(tuple(remarks)),)),) if remarks else ())


_SESSIONS_FROM = {
    "trace": "named in the trace",
    "prefixes": "inferred: a request that extends another's prompt",
}


def _notes(reading: Reading, info: TraceInfo) -> list[str]:
    notes = list(reading.notes)
    if info.sessions_from == "prefixes":
        notes.append("sessions are not named; they are inferred from prompts that extend each other")
    if info.span_seconds is None:
        notes.append("span_seconds is null: the trace has no times")
    if info.output is None:
        notes.append("output_tokens is null: the trace does not say how much was generated")
    return notes


def _skipped(reading: Reading) -> dict[str, dict[str, int]]:
    return {
        reason: {"requests": count, "first_line": reading.first_lines[reason]}
        for reason, count in reading.skipped.items()
    }


def _share(tokens: int, of: int) -> float | None:
    return tokens / of if of else None


def _reuse(tokens: int, info: TraceInfo) -> dict[str, Any]:
    return {"hit_tokens": tokens, "hit_ratio": _share(tokens, info.block_tokens_total)}


def _row(tokens: int, info: TraceInfo) -> tuple[str, str]:
    share = _share(tokens, info.block_tokens_total)
    return format_count(tokens), "–" if share is None else format_ratio(share)


def _spread(values: Distribution) -> dict[str, float | int]:
    return {
        "mean": values.mean,
        "p50": values.p50,
        "p90": values.p90,
        "p99": values.p99,
        "max": values.maximum,
    }


def _numbers(values: Distribution) -> tuple[str, ...]:
    return tuple(format_count(v) for v in (values.mean, values.p50, values.p90, values.p99, values.maximum))
