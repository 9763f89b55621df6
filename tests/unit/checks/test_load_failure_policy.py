"""The rule `load-failure-policy`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "load-failure-policy"
FIRES: list[dict[str, Any]] = [
    {"text": "vllm serve M --kv-offloading-size 4", "severity": "note", "says": "fails its request"},
    {
        "text": 'PYTHONHASHSEED=0 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "warning",
        "fix": "recompute",
        "engine": "vllm@0.28",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_load_failure_policy":"fail","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\'',
        "severity": "note",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --kv-offloading-size 4", "engine": "vllm@0.16"},
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_load_failure_policy":"recompute","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\''
    },
    {"text": "vllm serve M"},
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
