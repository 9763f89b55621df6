"""The rule `known-defect`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "known-defect"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --kv-offloading-size 4 --enable-sleep-mode",
        "severity": "warning",
        "says": "sleep mode",
        "engine": "vllm@0.22.1",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"SimpleCPUOffloadConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\'',
        "severity": "warning",
        "says": "garbled",
        "engine": "vllm@0.23",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B -pp 2 --kv-transfer-config \'{"kv_connector":"SimpleCPUOffloadConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\'',
        "severity": "warning",
        "says": "heaviest stage",
        "engine": "vllm@0.27",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-Next-80B-A3B --kv-offloading-size 64 --speculative-config \'{"method":"qwen3_next_mtp"}\'',
        "severity": "warning",
        "says": "never serves",
        "engine": "vllm@0.26",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --enable-lora --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "LoRA",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --enable-prompt-embeds --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "embeddings",
    },
    {
        "text": 'LMCACHE_LOCAL_DISK=/d LMCACHE_MAX_LOCAL_DISK_SIZE=9 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "write nothing",
        "lmcache": "0.3.12",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --kv-offloading-size 4 --enable-sleep-mode", "engine": "vllm@0.24"},
    {"text": "vllm serve M --kv-offloading-size 4"},
    {"text": "vllm serve M --enable-lora --kv-offloading-size 4"},
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
