"""`promtool` accepts the generated rules and alerts, and they fire when they should."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.prometheus import tool
from warmset.report.alerts import alerts_yaml, rules_yaml
from warmset.report.grafana import dashboard
from warmset.servers import engine

pytestmark = pytest.mark.e2e


def _promtool(*arguments: object) -> str:
    ran = subprocess.run(
        [tool("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize(
    "name",
    ["vllm@0.33", "vllm@0.32", "vllm@0.24", "vllm@0.16", "vllm@0.8.5", "sglang@0.5.23", "lmcache@0.5.6"],
)
def test_rules_are_accepted(name: str, tmp_path: Path) -> None:
    for kind, text in (("rules", rules_yaml(engine(name))), ("alerts", alerts_yaml(engine(name)))):
        file = tmp_path / f"{kind}.yaml"
        file.write_text(text)
        assert "SUCCESS" in _promtool("check", "rules", file)


@pytest.mark.parametrize("name", ["vllm@0.33", "vllm@0.24", "vllm@0.11.2", "sglang@0.5.23", "lmcache@0.5.6"])
def test_the_dashboard_is_importable(name: str, tmp_path: Path) -> None:
    """Ids are unique, panels do not overlap, and Prometheus reads every query with its variables filled in."""
    board = json.loads(json.dumps(dashboard(engine(name))))
    panels = board["panels"]
    assert board["id"] is None
    assert len({p["id"] for p in panels}) == len(panels)
    taken = [
        (x, y)
        for place in (p["gridPos"] for p in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24
    variables = {v["name"] for v in board["templating"]["list"]}
    queries = [t["expr"] for p in panels for t in p.get("targets", ())]
    assert len(queries) >= 4
    for query in queries:
        assert set(re.findall(r"\$(\w+)", query)) - {"__rate_interval"} <= variables
    filled = [re.sub(r"\$\w+", ".*", q.replace("$__rate_interval", "5m")) for q in queries]
    rules = [{"record": f"x:n{n}", "expr": q} for n, q in enumerate(filled)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert "SUCCESS" in _promtool("check", "rules", file)


# (alert that must fire, increase per minute of each counter)
_HEALTHY = {
    "prompt_tokens_total": 6000,
    "external_prefix_cache_queries_total": 4000,
    "external_prefix_cache_hits_total": 2000,
    'prompt_tokens_by_source_total{source="local_cache_hit"}': 2000,
    'prompt_tokens_by_source_total{source="local_compute"}': 2000,
    "request_prefill_time_seconds_sum": 20,
    "kv_offload_load_bytes_total": 2_000_000,
    "kv_offload_load_time_total": 1,
    "kv_offload_store_bytes_total": 2_000_000,
    "kv_offload_allocation_failure_total": 0,
}


@pytest.mark.parametrize(
    ("alert", "changes"),
    [
        (None, {}),
        ("WarmsetTierHurting", {"kv_offload_load_time_total": 30}),
        (
            "WarmsetTierThrashing",
            {
                "kv_offload_load_bytes_total": 10_000,
                "external_prefix_cache_hits_total": 10,
                "kv_offload_load_time_total": 0,
            },
        ),
        (
            "WarmsetTierInert",
            {
                "kv_offload_load_time_total": 0,
                "kv_offload_store_bytes_total": 0,
                "external_prefix_cache_hits_total": 0,
                "kv_offload_load_bytes_total": 0,
            },
        ),
        ("WarmsetTierRefusesStores", {"kv_offload_allocation_failure_total": 5}),
    ],
)
def test_alerts_fire(alert: str | None, changes: dict[str, float], tmp_path: Path) -> None:
    (tmp_path / "alerts.yaml").write_text(alerts_yaml(engine("vllm@0.32")))
    series: list[dict[str, Any]] = []
    for name, step in {**_HEALTHY, **changes}.items():
        metric, _, extra = name.partition("{")
        labels = ",".join(part for part in ('model_name="m"', 'engine="0"', extra.rstrip("}")) if part)
        series.append({"series": f"vllm:{metric}{{{labels}}}", "values": f"0+{step}x120"})
    rules = yaml.safe_load((tmp_path / "alerts.yaml").read_text())["groups"][0]["rules"]
    tests = []
    for rule in rules:
        expected = []
        if rule["alert"] == alert:
            texts = {k: v.replace("{{ $labels.model_name }}", "m") for k, v in rule["annotations"].items()}
            expected = [{"exp_labels": {"model_name": "m", **rule["labels"]}, "exp_annotations": texts}]
        tests.append({"eval_time": "100m", "alertname": rule["alert"], "exp_alerts": expected})
    unit = {
        "rule_files": ["alerts.yaml"],
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": tests}],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(unit, sort_keys=False, width=10_000))
    assert "SUCCESS" in _promtool("test", "rules", tmp_path / "test.yaml")


def test_recorded_ratio(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(rules_yaml(engine("vllm@0.32")))
    series = [
        {"series": 'vllm:prompt_tokens_total{model_name="m",engine="0"}', "values": "0+6000x60"},
        {"series": 'vllm:external_prefix_cache_hits_total{model_name="m",engine="0"}', "values": "0+1500x60"},
    ]
    expected = [{"labels": 'warmset:external_hit_ratio:rate5m{model_name="m"}', "value": 0.25}]
    test = {"expr": "warmset:external_hit_ratio:rate5m", "eval_time": "30m", "exp_samples": expected}
    unit = {
        "rule_files": ["rules.yaml"],
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [test]}],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(unit, sort_keys=False, width=10_000))
    assert "SUCCESS" in _promtool("test", "rules", tmp_path / "test.yaml")


@pytest.mark.parametrize(
    ("name", "prefix", "per_lookup"),
    [("vllm@0.11.2", "prefix_cache", 3), ("vllm@0.8.5", "gpu_prefix_cache", 1 / 16)],
)
def test_recorded_device_ratio_where_lookups_are_not_prompt_tokens(
    name: str, prefix: str, per_lookup: float, tmp_path: Path
) -> None:
    """Lookups were counted again on every retry up to 0.26, and in blocks in 0.8.5."""
    (tmp_path / "rules.yaml").write_text(rules_yaml(engine(name)))
    steps = {
        "prompt_tokens_total": 6400.0,
        f"{prefix}_queries_total": 6400 * per_lookup,
        f"{prefix}_hits_total": 1600 * per_lookup,
    }
    series = [
        {"series": f'vllm:{metric}{{model_name="m",engine="0"}}', "values": f"0+{step:g}x60"}
        for metric, step in steps.items()
    ]
    rule = "warmset:device_hit_ratio:rate5m"
    expected = [{"labels": f'{rule}{{model_name="m"}}', "value": 0.25}]
    test = {"expr": rule, "eval_time": "30m", "exp_samples": expected}
    unit = {
        "rule_files": ["rules.yaml"],
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": [test]}],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(unit, sort_keys=False))
    assert "SUCCESS" in _promtool("test", "rules", tmp_path / "test.yaml")


@pytest.mark.parametrize("host", [0.0, 1200.0], ids=["never supplied", "supplies a fifth"])
def test_hicache_that_never_supplied_anything_has_no_series_for_it(host: float, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(rules_yaml(engine("sglang@0.5.23")))
    (tmp_path / "alerts.yaml").write_text(alerts_yaml(engine("sglang@0.5.23")))
    steps = {
        "prompt_tokens_total{": 6000.0,
        'cached_tokens_total{cache_source="device",': 1500.0,
        'cached_tokens_total{cache_source="total",': 1500.0 + host,
        'hicache_backup_bytes_total{tp_rank="0",': 2e6,
    }
    if host:
        steps |= {'cached_tokens_total{cache_source="host",': host, 'load_back_bytes_total{tp_rank="0",': 1e6}
    series = [
        {"series": f'sglang:{name}model_name="m"}}', "values": f"0+{step:g}x120"}
        for name, step in steps.items()
    ]
    recorded = {"labels": 'warmset:combined_hit_ratio:rate5m{model_name="m"}', "value": (1500 + host) / 6000}
    rules = yaml.safe_load((tmp_path / "alerts.yaml").read_text())["groups"][0]["rules"]
    (rule,) = (r for r in rules if r["alert"] == "WarmsetTierThrashing")
    texts = {k: v.replace("{{ $labels.model_name }}", "m") for k, v in rule["annotations"].items()}
    fires = [] if host else [{"exp_labels": {"model_name": "m", **rule["labels"]}, "exp_annotations": texts}]
    test = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {"expr": "warmset:combined_hit_ratio:rate5m", "eval_time": "100m", "exp_samples": [recorded]}
        ],
        "alert_rule_test": [{"eval_time": "100m", "alertname": rule["alert"], "exp_alerts": fires}],
    }
    unit = {"rule_files": ["rules.yaml", "alerts.yaml"], "tests": [test]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(unit, sort_keys=False, width=10_000))
    assert "SUCCESS" in _promtool("test", "rules", tmp_path / "test.yaml")
