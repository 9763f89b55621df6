"""Prometheus recording rules and alerts for one server version, as the YAML of a rule file."""

from dataclasses import replace
from typing import Any

from warmset.meters.thresholds import DEFAULTS
from warmset.report.promql import Queries
from warmset.servers import Engine

Rule = dict[str, Any]


def rules_yaml(engine: Engine) -> str:
    """Recording rules: `warmset:NAME:rate5m`, by model."""
    q = Queries(engine)
    recorded = (
        ("device_hit_ratio", q.ratio(q.device_hits())),
        ("external_hit_ratio", q.ratio(q.external_hits())),
        ("combined_hit_ratio", q.combined_ratio()),
        ("ttft_p50_seconds", q.quantile("ttft", 0.5)),
        ("ttft_p99_seconds", q.quantile("ttft", 0.99)),
        ("lookup_async_p99_seconds", q.quantile("lookup_async_delay", 0.99)),
        ("load_bytes", q.load_bytes()),
        ("store_bytes", q.store_bytes()),
        ("prefill_seconds_saved", q.saved()),
        ("load_seconds_paid", q.paid()),
    )
    rows = [{"record": f"warmset:{name}:rate5m", "expr": expr} for name, expr in recorded if expr is not None]
    return _yaml(engine, "warmset-meters", rows)


def alerts_yaml(engine: Engine) -> str:
    """Alerts for a tier that hurts, does nothing or thrashes, each with its runbook."""
    q = replace(Queries(engine), window="15m")
    rows: list[Rule] = []
    external, store, load = q.external_hits(), q.store_bytes(), q.load_bytes()
    saved, paid, share = q.saved(), q.paid(), q.ratio(q.external_hits())
    computed = q.computed()
    if saved is not None and paid is not None:
        rows.append(
            _alert(
                "WarmsetTierHurting",
                f"{paid} > {saved}",
                "15m",
                "critical",
                "Loads from the KV tier cost more than they save",
                "Loads of {{ $labels.model_name }} took longer than the prefill that they spared, for 15 minutes.",
                "Confirm with `warmset measure URL --for 5m`. Check the link or disk of the tier for contention. If it "
                "stays, switch the tier off, or keep only blocks that are seen twice (`store_threshold`).",
            )
        )
    if share is not None and store is not None and load is not None:
        little, idle = DEFAULTS.thrash_load_ratio, DEFAULTS.thrash_served_ratio
        rows.append(
            _alert(
                "WarmsetTierThrashing",
                # A counter of loads or hits may have no series before its first event.
                f"({store} > 0) unless ({load} >= {little:g} * {store}) unless ({share} >= {idle:g})",
                "30m",
                "warning",
                "The KV tier is written and hardly read",
                "The tier of {{ $labels.model_name }} stores all the time and gives back less than "
                f"{idle:.0%} of the prompt tokens.",
                "Ask `warmset measure URL --for 15m`: it tells a tier that is too small from traffic without reuse. "
                "`warmset curve TRACE` shows what a larger tier would find.",
            )
        )
    queries = q.rate("external_query_tokens")
    if store is not None and computed is not None and external is not None and queries is not None:
        rows.append(
            _alert(
                "WarmsetTierInert",
                f"({store} == 0) and ({external} == 0) and ({computed} > 0) and ({queries} > 0)",
                "30m",
                "warning",
                "The KV tier stores and loads nothing",
                "A connector is attached to {{ $labels.model_name }}, prompts are computed, and nothing is stored.",
                "Run `warmset measure URL` for the likely cause (prefix caching off, a failed connector, prompts below "
                "one chunk), and `warmset check` on the command line.",
            )
        )
    tail = q.quantile("ttft", 0.99)
    if tail is not None:
        rows.append(
            _alert(
                "WarmsetTtftTailGrowing",
                f"{tail} > 2 * ({tail.replace(f'[{q.window}]', f'[{q.window}] offset 1d')})",
                "15m",
                "warning",
                "TTFT p99 has doubled against yesterday",
                "TTFT p99 of {{ $labels.model_name }} is {{ $value | humanizeDuration }}.",
                "Compare with a saved baseline: `warmset measure URL --for 5m --baseline before.json`. If the "
                "tier's hits fell as well, the warm set has outgrown the tier.",
            )
        )
    refused = q.rate("allocation_failures")
    if refused is not None:
        rows.append(
            _alert(
                "WarmsetTierRefusesStores",
                f"{refused} > 0",
                "15m",
                "warning",
                "The KV tier has no room for new blocks",
                "Stores of {{ $labels.model_name }} are refused: the tier is pinned by transfers or too small.",
                "Enlarge the tier (`warmset plan`), or slow the stores down.",
            )
        )
    failures = q.rate("tiering_promotion_failures")
    if failures is not None:
        rows.append(
            _alert(
                "WarmsetLowerTierFails",
                f"{failures} > 0",
                "10m",
                "critical",
                "Reads from the tier below RAM fail",
                "Promotions for {{ $labels.model_name }} fail; requests recompute or fail, by kv_load_failure_policy.",
                "Run `warmset tier doctor STORE` where the server runs.",
            )
        )
    return _yaml(engine, "warmset-alerts", rows)


def _alert(
    name: str, expr: str, duration: str, severity: str, summary: str, description: str, runbook: str
) -> Rule:
    return {
        "alert": name,
        "expr": expr,
        "for": duration,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": description, "runbook": runbook},
    }


def _yaml(engine: Engine, group: str, rules: list[Rule]) -> str:
    import yaml

    text: str = yaml.safe_dump({"groups": [{"name": group, "rules": rules}]}, sort_keys=False, width=100_000)
    return f"# For {engine.server} {engine.version}; check with `promtool check rules FILE`.\n{text}"
