"""The rule `hybrid-block-size`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "hybrid-block-size"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve google/gemma-4-31B-it --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960,"block_size":512}}\'',
        "severity": "error",
        "says": "same block size",
        "fix": "drop",
        "engine": "vllm@0.25",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --speculative-config \'{"method":"eagle"}\' --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960,"block_size":512}}\'',
        "severity": "error",
        "says": "draft model",
        "fix": '"blocks_per_chunk": 32',
        "engine": "vllm@0.28",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960,"block_size":512}}\''
    },
    {
        "text": 'vllm serve google/gemma-4-31B-it --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960,"blocks_per_chunk":32}}\''
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
