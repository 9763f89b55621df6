"""Reports a study of hit rate against capacity: table, chart in the terminal, JSON."""

import math
from typing import Any

import numpy as np

from warmset.curves.sizing import Size
from warmset.curves.study import Point, Study
from warmset.report.curve_chart import chart
from warmset.report.document import Bullets, Code, Document, Facts, Line, Section, Table
from warmset.units import GIB, format_bytes, format_count, format_counted, format_duration, format_ratio

_WIDE_BOUND = 0.01
_BYTES_PER_ACCESS = 12  # at the most; see docs/explanation/performance.md
_LINE_POINTS = 240
_POLICY = {"lru": "LRU", "arc": "ARC", "fifo": "FIFO", "lfu": "LFU", "optimal": "the clairvoyant policy"}
_NO_ORDER = {
    "fifo": "blocks enter head first and leave in that order, whatever is touched meanwhile",
    "optimal": "the leaf that is needed latest leaves, whatever was touched last",
}


def payload(study: Study) -> dict[str, Any]:
    """The study as `warmset.curve/1`."""
    curve, question = study.curve, study.question
    tokens = question.weight == "tokens"
    sampling = curve.sampling
    return {
        "schema": "warmset.curve/1",
        "source": study.source,
        "requests": curve.requests,
        "warmup_requests": curve.warmup_requests,
        "block_accesses": curve.accesses,
        "unique_blocks": curve.unique_blocks if curve.unique_blocks >= 0 else None,
        "block_tokens": curve.block_tokens,
        "order": question.touch_order,
        "weight": question.weight,
        "policy": question.policy,
        "denominator": _denominator(study),
        "total_tokens": curve.total_tokens,
        "prompt_tokens": curve.prompt_tokens,
        "bytes_per_block": None if question.bytes_per_block is None else float(question.bytes_per_block),
        "device_capacity_blocks": question.device_blocks,
        "tiers": None if question.device_blocks is None else question.inclusion,
        "chunk_tokens": question.chunk_tokens,
        "concurrency": question.concurrency,
        "ceiling": {
            "hit_tokens": curve.ceiling_hit_tokens,
            "hit_ratio": curve.ceiling_hit_ratio,
            "hit_ratio_of_prompt": curve.ceiling_hit_tokens / curve.prompt_tokens
            if tokens and curve.prompt_tokens
            else None,
            "capacity_blocks": study.ceiling_blocks,
            "capacity_bytes": _bytes(study, study.ceiling_blocks),
        },
        "points": [_point(study, point) for point in study.points],
        "knee": _size(study, study.knee),
        "within": {"points": study.size.within_points, **_size(study, study.size)},
        "smallest_capacity_blocks": study.size.capacity_blocks,
        "smallest_capacity_bytes": _bytes(study, study.size.capacity_blocks),
        "lru_curve": [{"capacity_blocks": c, "hit_ratio": r} for c, r in line(study)],
        "sample": None
        if sampling is None
        else {
            "ratio": sampling.ratio,
            "seed": sampling.seed,
            "blocks": sampling.sampled_blocks,
            "block_accesses": sampling.sampled_accesses,
            "error_bound_ratio": sampling.error_ratio,
            "error_bound_from_capacity_blocks": sampling.error_from_blocks,
        },
        "skipped_requests": sum(study.skipped.values()),
        "skipped": {reason: {"requests": count} for reason, count in study.skipped.items()},
        "notes": notes(study),
    }


def line(study: Study) -> list[tuple[int, float]]:
    """The LRU curve as (capacity in blocks, hit ratio), thinned to what a screen shows.

    With a device pool, capacities are those of the tier, and ratios are of both together, as in the points.
    """
    curve, device = study.curve, study.question.device_blocks or 0
    above = device if study.question.inclusion == "exclusive" else 0
    on_device = max((p.device_hit_tokens or 0 for p in study.points), default=0)
    top = max(1, study.ceiling_blocks, *(p.capacity_blocks for p in study.points))
    # Far below the smallest capacity that anyone asks about there is nothing to see.
    low = max(1, min((p.capacity_blocks for p in study.points), default=1) // 4)
    spread = {round(c) for c in np.geomspace(low, top, _LINE_POINTS)}
    spread |= {p.capacity_blocks for p in study.points} | {study.knee.capacity_blocks} - {0}
    return [(c, curve.ratio(max(on_device, curve.hit_tokens_at(above + c)))) for c in sorted(spread)]


def notes(study: Study) -> list[str]:
    """What a reader has to know to read the figures rightly."""
    curve, question = study.curve, study.question
    found = []
    if question.weight == "blocks":
        found.append("weight is blocks: `total_tokens` and `hit_tokens` count block accesses, not tokens")
        found.append("`hit_ratio_of_prompt` is null: blocks have no share of the prompt's tokens")
    if question.bytes_per_block is None:
        found.append("`capacity_bytes` is null: name a model with `--model` to see bytes")
    if question.touch_order is None:
        found.append(f"`order` is null: {_NO_ORDER[question.policy]}")
    if question.order == "head-first":
        found.append("head first counts every resident block; servers serve leading blocks only (tail first)")
    if question.device_blocks is not None and question.inclusion == "inclusive":
        found.append(
            "the tier also holds what the device holds (as vLLM's does):"
            f" up to {format_counted(question.device_blocks, 'block')} it adds nothing"
        )
    if question.chunk_tokens is not None:
        found.append(
            f"only whole chunks of {question.chunk_tokens} tokens are stored; capacities and the denominator"
            " count blocks all the same"
        )
    longest = study.longest_request_blocks or 0
    asked = [*question.capacities, study.size.capacity_blocks or longest]
    if question.policy == "lru" and question.touch_order == "tail-first" and min(asked) < longest:
        found.append(
            f"below {format_counted(longest, 'block')}, the longest request: its head stays in an LRU, and vLLM's host"
            " tier stores nothing of what does not fit"
        )
    if question.policy != "lru":
        found.append("knee and smallest capacity are read off the LRU curve; the points are the policy's")
    if question.concurrency is not None:
        found.append("knee and smallest capacity are read off the curve without pinned blocks")
    sampling = curve.sampling
    if sampling is not None:
        found.append(
            f"sampled: within {100 * sampling.error_ratio:.1f} points at about 95 % confidence"
            f" from {sampling.error_from_blocks:,} blocks up"
        )
        if sampling.error_ratio > _WIDE_BOUND:
            whole = format_bytes(_BYTES_PER_ACCESS * curve.accesses)
            found.append(
                f"that is wide: raise `--sample`, or leave it out, the exact curve needs about {whole} of memory"
            )
        found.append("`unique_blocks` is null where the trace was streamed: only followed blocks are known")
        if not sampling.complete:
            found.append("blocks were forgotten to bound memory: the ceiling is a lower bound")
    if question.speeds is not None:
        found.append(
            "time to first token leaves out queueing and batching: compare with it, do not promise it"
        )
        if question.device_blocks is None:
            found.append("no device pool is named (`--device`): hits cost no loading in the estimate")
    return found


def document(study: Study) -> Document:
    """What each capacity buys, and where it stops paying."""
    curve, size = study.curve, study.size
    lru = "" if study.question.policy == "lru" else ", LRU"
    facts = (
        (
            "trace",
            study.source,
            f"{format_counted(curve.requests, 'request')}, {format_counted(curve.accesses, 'block access')}",
        ),
        ("counted", f"{curve.total_tokens:,}", _denominator_words(study)),
        (
            "ceiling",
            format_ratio(curve.ceiling_hit_ratio),
            f"from {_capacity(study, study.ceiling_blocks)} up{lru}"
            if study.ceiling_blocks or not curve.ceiling_hit_tokens
            else "the device pool reaches it",
        ),
        (f"knee{lru}", _capacity(study, study.knee.capacity_blocks), format_ratio(study.knee.hit_ratio)),
        (
            f"within {size.within_points:g} point{'' if size.within_points == 1 else 's'}{lru}",
            _capacity(study, size.capacity_blocks),
            format_ratio(size.hit_ratio),
        ),
    )
    sections = [
        Section("", (Facts(facts),)),
        Section(_title(study), (_table(study),)),
        Section("", (Code(chart(line(study), study.points), "text"),)),
    ]
    if found := notes(study):
        sections.append(Section("Notes", (Bullets(tuple(found)),)))
    return Document(_headline(study), tuple(sections))


def _headline(study: Study) -> Line:
    """What to take away: of the policy that was asked about, and of the tier where there is a device pool."""
    curve, question, size = study.curve, study.question, study.size
    if curve.ceiling_hit_tokens == 0:
        return Line("no block is read a second time: no capacity serves anything", "warn")
    what = "tokens" if question.weight == "tokens" else "blocks"
    best = f"no capacity serves more than {format_ratio(curve.ceiling_hit_ratio)}"
    if question.policy != "lru":
        enough = curve.ceiling_hit_ratio - size.within_points / 100
        point = next((p for p in study.points if p.hit_ratio >= enough), study.points[-1])
        served = f"{format_ratio(point.hit_ratio)} of the {what} under {_POLICY[question.policy]}"
        return Line(f"{_capacity(study, point.capacity_blocks)} serve {served}; {best}", "good")
    served = f"{format_ratio(size.hit_ratio)} of the {what}"
    if question.device_blocks is None:
        return Line(f"{_capacity(study, size.capacity_blocks)} serve {served}; {best}", "good")
    if not size.capacity_blocks:
        return Line(f"the device pool alone serves {served}; {best}", "good")
    return Line(
        f"the device pool and a tier of {_capacity(study, size.capacity_blocks)} serve {served}; {best}",
        "good",
    )


def csv_document(study: Study) -> Document:
    """The points with plain numbers, under the keys of the JSON."""
    rows = [_point(study, point) for point in study.points]
    headers = tuple(rows[0]) if rows else ("capacity_blocks",)
    cells = tuple(tuple("" if v is None else str(v) for v in row.values()) for row in rows)
    return Document(Line(""), (Section("", (Table(headers, cells),)),))


def _table(study: Study) -> Table:
    question = study.question
    columns: list[tuple[str, list[str]]] = [
        ("blocks", [format_count(p.capacity_blocks) for p in study.points])
    ]
    if question.bytes_per_block is not None:
        columns.append(("GiB", [f"{(p.capacity_bytes or 0) / GIB:,.2f}" for p in study.points]))
    if question.device_blocks is not None:
        ratio = study.curve.ratio
        columns.append(("device", [format_ratio(ratio(p.device_hit_tokens or 0)) for p in study.points]))
        columns.append(("host", [format_ratio(ratio(p.host_hit_tokens or 0)) for p in study.points]))
    columns.append(("hit rate", [format_ratio(p.hit_ratio) for p in study.points]))
    if question.weight == "tokens":
        columns.append(("of prompt", [format_ratio(p.hit_ratio_of_prompt or 0) for p in study.points]))
    if question.bytes_per_block is not None:
        columns.append(("points/GiB", [_gain(p.points_per_gib) for p in study.points]))
    if question.speeds is not None:
        columns.append(("TTFT", [format_duration(p.mean_ttft_seconds or 0) for p in study.points]))
    rows = tuple(zip(*(cells for _, cells in columns), strict=True))
    return Table(tuple(name for name, _ in columns), rows, frozenset(range(len(columns))))


def _title(study: Study) -> str:
    what = f"Hit rate by capacity, {_POLICY[study.question.policy]}"
    return what + (f", sampled 1 in {round(1 / s.ratio)}" if (s := study.curve.sampling) else "")


def _capacity(study: Study, blocks: int) -> str:
    size = _bytes(study, blocks)
    return format_counted(blocks, "block") + ("" if size is None else f" ({format_bytes(size)})")


def _denominator(study: Study) -> str:
    return "block_tokens" if study.question.weight == "tokens" else "block_accesses"


def _denominator_words(study: Study) -> str:
    after = f", after {format_counted(w, 'request')} of warm-up" if (w := study.curve.warmup_requests) else ""
    return ("tokens in listed blocks" if study.question.weight == "tokens" else "block accesses") + after


def _bytes(study: Study, blocks: int) -> int | None:
    per_block = study.question.bytes_per_block
    return None if per_block is None else round(blocks * per_block)


def _gain(points_per_gib: float | None) -> str:
    """Two significant digits, never in powers of ten: what a GiB brings spans decades."""
    if not points_per_gib:
        return "+0"
    return f"{points_per_gib:+.{max(0, 1 - math.floor(math.log10(abs(points_per_gib))))}f}"


def _point(study: Study, point: Point) -> dict[str, Any]:
    return {
        "capacity_blocks": point.capacity_blocks,
        "capacity_bytes": point.capacity_bytes,
        "hit_tokens": point.hit_tokens,
        "hit_ratio": point.hit_ratio,
        "denominator": _denominator(study),
        "hit_ratio_of_prompt": point.hit_ratio_of_prompt,
        "device_hit_tokens": point.device_hit_tokens,
        "host_hit_tokens": point.host_hit_tokens,
        "points_per_gib": point.points_per_gib,
        "ttft_mean_seconds": point.mean_ttft_seconds,
    }


def _size(study: Study, size: Size) -> dict[str, Any]:
    return {
        "capacity_blocks": size.capacity_blocks,
        "capacity_bytes": _bytes(study, size.capacity_blocks),
        "hit_tokens": size.hit_tokens,
        "hit_ratio": size.hit_ratio,
    }
