"""The rule `metric-name`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "metric-name"
FIRES: list[dict[str, Any]] = [
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: vllm:gpu_prefix_cache_hit_rate < 0.1\n",
        "severity": "error",
        "fix": "rate(vllm:prefix_cache_hits_total",
        "name": "r.yaml",
    },
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: rate(vllm:gpu_prefix_cache_hits_total[5m])\n",
        "severity": "error",
        "fix": "vllm:prefix_cache_hits_total",
        "name": "r.yaml",
    },
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: vllm:gpu_cache_usage_perc > 0.9\n",
        "severity": "error",
        "fix": "vllm:kv_cache_usage_perc",
        "name": "r.yaml",
    },
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: lmcache:cache_hit_rate < 1\n",
        "severity": "error",
        "fix": "lmcache:retrieve_hit_rate",
        "name": "r.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: rate(vllm:prefix_cache_hits_total[5m])\n",
        "name": "r.yaml",
    },
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: histogram_quantile(0.9, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))\n",
        "name": "r.yaml",
    },
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: rate(sglang:cached_tokens_total[5m])\n",
        "name": "r.yaml",
    },
]


@pytest.mark.parametrize("case", FIRES)
def test_speaks(checked: Any, case: dict[str, Any]) -> None:
    found = [f for f in checked(case) if f.rule == RULE]
    assert any(
        f.severity == case["severity"]
        and case.get("says", "") in f.message
        and case.get("fix", "") in (f.fix or "")
        for f in found
    ), found


@pytest.mark.parametrize("case", SILENT)
def test_keeps_silent(checked: Any, case: dict[str, Any]) -> None:
    assert [f for f in checked(case) if f.rule == RULE] == []
