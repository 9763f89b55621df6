"""The rule `tiering-without-tiers`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "tiering-without-tiers"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960}}\'',
        "severity": "note",
        "says": "no lower tier",
        "fix": "CPUOffloadingSpec",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "error",
        "says": "came with 0.22",
        "engine": "vllm@0.20",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\''
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\''
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
