"""Shows running servers: bars and sparklines of the three meters, the verdict, and one row per server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warmset.meters.meters import Meters
from warmset.meters.quantiles import Estimate
from warmset.meters.watching import Frame
from warmset.report.data import Payload
from warmset.report.document import Document, Line, Section, Table
from warmset.report.measure import TONES, window_payload
from warmset.units import format_count, format_counted, format_duration, format_ratio

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEVELS = "▁▂▃▄▅▆▇█"
_BAR = 24
_MOST_ROWS = 40


def payload(frame: Frame) -> Payload:
    """One moment as JSON: `warmset.watch/1`."""
    return {
        "schema": "warmset.watch/1",
        "verdict": frame.verdict.name,
        "reason": frame.verdict.reason,
        "summary": frame.verdict.summary,
        "confidence": frame.verdict.confidence,
        **window_payload(frame.meters),
        "endpoints": [
            {
                "instance": e.instance,
                "verdict": e.verdict.name if e.verdict else None,
                "error": e.error,
                "requests": e.meters.requests if e.meters else None,
                "combined_hit_ratio": _value(e.meters.hit_ratio.combined) if e.meters else None,
                "ttft_p50_seconds": _value(e.meters.ttft_p50_seconds) if e.meters else None,
                "ttft_p99_seconds": _value(e.meters.ttft_p99_seconds) if e.meters else None,
            }
            for e in frame.endpoints
        ],
    }


def document(frame: Frame, history: Sequence[Frame] = ()) -> Document:
    """One moment for a person, with the course of the meters where there is a history."""
    m, v = frame.meters, frame.verdict
    frames = (*history, frame)
    rows = (
        (
            "1 hit ratio, device",
            *_ratio(m.hit_ratio.device),
            _course([_value(f.meters.hit_ratio.device) for f in frames]),
        ),
        (
            "  hit ratio, tier",
            *_ratio(m.hit_ratio.external),
            _course([_value(f.meters.hit_ratio.external) for f in frames]),
        ),
        (
            "  together",
            *_ratio(m.hit_ratio.combined),
            _course([_value(f.meters.hit_ratio.combined) for f in frames]),
        ),
        (
            "2 TTFT p50",
            _time(m.ttft_p50_seconds),
            "",
            _course([_value(f.meters.ttft_p50_seconds) for f in frames]),
        ),
        (
            "3 TTFT p99",
            _time(m.ttft_p99_seconds),
            "",
            _course([_value(f.meters.ttft_p99_seconds) for f in frames]),
        ),
    )
    seconds = format_duration(m.seconds) if m.seconds else "an unknown time"
    head = (
        f"{v.name} ({v.confidence} confidence) over {seconds}, {format_counted(m.requests or 0, 'request')}"
    )
    return Document(
        Line(head, TONES[v.name]),
        (
            Section("", (Line(v.summary),)),
            Section("Meters", (Table(("meter", "now", "share", "course"), rows, frozenset({1})),)),
            Section("Servers", (_endpoints(frame),)),
        ),
    )


def live(frame: Frame, history: Sequence[Frame]) -> "RenderableType":
    """The same for a live terminal: tables are cut at its width, the sentences above them wrap."""
    import io

    from rich.console import Group
    from rich.text import Text

    from warmset.report.text import write_text

    out = io.StringIO()
    write_text(document(frame, history), out, "always")
    lines = Text.from_ansi(out.getvalue()).split("\n", allow_blank=True)
    above = next((n for n, line in enumerate(lines) if line.plain == "Meters"), 0)
    for line in lines[above:]:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _endpoints(frame: Frame) -> Table:
    rows = []
    for e in frame.endpoints[:_MOST_ROWS]:
        if e.meters is None or e.verdict is None:
            rows.append((e.instance, "–", "–", "–", "–", e.error or ""))
            continue
        m: Meters = e.meters
        rows.append(
            (
                e.instance,
                format_count(m.requests or 0),
                _ratio(m.hit_ratio.combined)[0],
                _time(m.ttft_p50_seconds),
                _time(m.ttft_p99_seconds),
                e.verdict.name,
            )
        )
    hidden = len(frame.endpoints) - _MOST_ROWS
    if hidden > 0:
        rows.append((f"… and {hidden} more", "", "", "", "", ""))
    return Table(
        ("server", "requests", "hits", "TTFT p50", "TTFT p99", "verdict"),
        tuple(rows),
        frozenset({1, 2, 3, 4}),
    )


def _ratio(e: Estimate | None) -> tuple[str, str]:
    if e is None:
        return "–", ""
    filled = round(min(1.0, max(0.0, e.value)) * _BAR)
    return format_ratio(e.value), "█" * filled + "░" * (_BAR - filled)


def _time(e: Estimate | None) -> str:
    return "–" if e is None else format_duration(e.value)


def _value(e: Estimate | None) -> float | None:
    return None if e is None else e.value


def _course(values: Sequence[float | None]) -> str:
    """A sparkline of the last values, scaled to the highest."""
    shown = values[-40:]
    top = max((v for v in shown if v is not None), default=0.0)
    if top <= 0:
        return ""
    return "".join(" " if v is None else _LEVELS[min(7, int(v / top * 7.999))] for v in shown)
