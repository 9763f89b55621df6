"""The rule `metric-sum`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "metric-sum"
FIRES: list[dict[str, Any]] = [
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: sum(vllm:kv_cache_usage_perc)\n",
        "severity": "error",
        "says": "0.4, not 0.8",
        "fix": "avg(vllm:kv_cache_usage_perc)",
        "name": "r.yaml",
    },
    {
        "text": 'groups:\n- name: a\n  rules:\n  - alert: A\n    expr: sum by (pod) (vllm:kv_cache_usage_perc{model_name="m"})\n',
        "severity": "error",
        "fix": "avg by (pod)",
        "name": "r.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: avg(vllm:kv_cache_usage_perc)\n",
        "name": "r.yaml",
    },
    {
        "text": "groups:\n- name: a\n  rules:\n  - alert: A\n    expr: sum(rate(vllm:prompt_tokens_total[5m]))\n",
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
