"""An importable Grafana dashboard of the three meters and the tiers, for one server version."""

from dataclasses import dataclass
from typing import Any

from warmset.report.data import Payload
from warmset.report.promql import Queries
from warmset.servers import Engine

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_SELECTOR = 'job=~"$job",model_name=~"$model_name",instance=~"$instance"'
_COLUMNS, _WIDTH, _HEIGHT = 3, 8, 8


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    unit: str
    lines: tuple[tuple[str, str | None], ...]
    about: str = ""


def dashboard(engine: Engine) -> Payload:
    """The dashboard as JSON; panels whose metrics the version lacks are left out."""
    q = Queries(engine, window="$__rate_interval", selector=_SELECTOR)
    rows = (
        ("The three meters", _meters(q)),
        ("What the tier costs and saves", _costs(q)),
        ("Tiers below RAM", _tiers(q)),
        ("The server", _server(q)),
    )
    panels: list[dict[str, Any]] = []
    y = 0
    for title, group in rows:
        shown = [p for p in group if any(expr for _, expr in p.lines)]
        if not shown:
            continue
        panels.append(_row(len(panels) + 1, title, y))
        y += 1
        for index, panel in enumerate(shown):
            x = index % _COLUMNS * _WIDTH
            panels.append(_timeseries(len(panels) + 1, panel, x, y + index // _COLUMNS * _HEIGHT))
        y += (len(shown) + _COLUMNS - 1) // _COLUMNS * _HEIGHT
    anchor = engine.metric("requests_running") or engine.metric("prompt_tokens")
    return {
        "id": None,
        "uid": "warmset-tier",
        "title": "warmset / KV tier",
        "description": f"Made by warmset for {engine.server} {engine.version}.",
        "tags": ["warmset", engine.server],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables(anchor.name if anchor else "up")},
        "annotations": {"list": []},
        "panels": panels,
    }


def _meters(q: Queries) -> tuple[_Panel, ...]:
    return (
        _Panel(
            "1 Hit ratio (share of prompt tokens)",
            "percentunit",
            (
                ("device", q.ratio(q.device_hits())),
                ("tier", q.ratio(q.external_hits())),
                ("together", q.combined_ratio()),
            ),
            "Token-weighted. Rising after the tier came means that blocks survive.",
        ),
        _Panel("2 TTFT p50", "s", (("p50", q.quantile("ttft", 0.5)), ("p90", q.quantile("ttft", 0.9)))),
        _Panel(
            "3 TTFT p99 and lookups",
            "s",
            (
                ("TTFT p99", q.quantile("ttft", 0.99)),
                ("asynchronous lookup p99", q.quantile("lookup_async_delay", 0.99)),
            ),
            "A growing tail with a falling hit ratio: the warm set has outgrown the tier.",
        ),
    )


def _costs(q: Queries) -> tuple[_Panel, ...]:
    return (
        _Panel(
            "Seconds saved and paid",
            "s",
            (("prefill saved, at most", q.saved()), ("paid for loads", q.paid())),
            "Request-seconds per second. The tier pays while the first line is above the second.",
        ),
        _Panel("Bytes", "Bps", (("loaded", q.load_bytes()), ("stored", q.store_bytes()))),
        _Panel("Stores refused", "cps", (("refused", q.rate("allocation_failures")),)),
    )


def _tiers(q: Queries) -> tuple[_Panel, ...]:
    label = "cache_source" if q.engine.server == "sglang" else "source"
    by_source = Queries(q.engine, q.window, q.selector, label)
    by_tier = Queries(q.engine, q.window, q.selector, "tier")
    asked, hit = by_tier.rate("tiering_chunk_queries"), by_tier.rate("tiering_chunk_hits")
    return (
        _Panel(
            f"Hit tokens by {label}",
            "short",
            (("{{" + label + "}}", by_source.rate("prompt_tokens_cached_by_source")),),
        ),
        _Panel(
            "Chunk hits by tier",
            "percentunit",
            (("{{tier}}", f"{hit} / ({asked} > 0)" if asked and hit else None),),
        ),
        _Panel(
            "Bytes by tier",
            "Bps",
            (
                ("read {{tier}}", by_tier.rate("tiering_read_bytes")),
                ("written {{tier}}", by_tier.rate("tiering_write_bytes")),
            ),
        ),
        _Panel(
            "Failed promotions by tier", "cps", (("{{tier}}", by_tier.rate("tiering_promotion_failures")),)
        ),
    )


def _server(q: Queries) -> tuple[_Panel, ...]:
    usage, waiting = q.engine.metric("kv_cache_usage"), q.engine.metric("requests_waiting")
    return (
        _Panel("Prompt tokens", "short", (("prompt", q.prompt_tokens()), ("computed", q.computed()))),
        _Panel(
            "Device pool in use",
            "percentunit",
            (("{{model_name}}", f"max by (model_name) ({usage.name}{{{q.selector}}})" if usage else None),),
            "The highest of the engines: shares do not add up.",
        ),
        _Panel(
            "Waiting and preempted",
            "short",
            (
                ("waiting", f"sum by (model_name) ({waiting.name}{{{q.selector}}})" if waiting else None),
                ("preemptions per second", q.rate("preemptions")),
            ),
        ),
    )


def _row(number: int, title: str, y: int) -> dict[str, Any]:
    place = {"h": 1, "w": 24, "x": 0, "y": y}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place}


def _timeseries(number: int, panel: _Panel, x: int, y: int) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + i),
            "datasource": _DATASOURCE,
            "expr": expr,
            "legendFormat": legend,
            "editorMode": "code",
        }
        for i, (legend, expr) in enumerate((legend, expr) for legend, expr in panel.lines if expr)
    ]
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _DATASOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "noValue": "No traffic"}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def _variables(anchor: str) -> list[dict[str, Any]]:
    source: dict[str, Any] = {
        "name": "datasource",
        "type": "datasource",
        "query": "prometheus",
        "label": "Data source",
    }
    variables = [source]
    chosen = ""
    for name in ("job", "model_name", "instance"):
        query = f"label_values({anchor}{{{chosen}}}, {name})"
        variables.append(
            {
                "name": name,
                "type": "query",
                "datasource": _DATASOURCE,
                "query": {"query": query, "refId": name},
                "definition": query,
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
            }
        )
        chosen += ("," if chosen else "") + f'{name}=~"${name}"'
    return variables
