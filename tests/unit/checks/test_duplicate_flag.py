"""The rule `duplicate-flag`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "duplicate-flag"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\' --kv_transfer_config=\'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "2 times",
    },
    {
        "text": "vllm serve M --kv-offloading-size 40 --kv-offloading-size 80",
        "severity": "error",
        "says": "only the last one",
    },
    {"text": "vllm serve M --kv-offloading-size 40 --kv_offloading_size=40", "severity": "warning"},
]
SILENT: list[dict[str, Any]] = [{"text": "vllm serve M --kv-offloading-size 40"}]


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
