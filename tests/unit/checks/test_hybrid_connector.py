"""The rule `hybrid-connector`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "hybrid-connector"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3.6-27B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "several KV-cache groups",
        "engine": "vllm@0.19.1",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-Next-80B-A3B --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "LMCacheMPConnector",
    },
    {
        "text": 'vllm serve google/gemma-3-27b-it --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\'',
        "severity": "warning",
        "says": "as soon as a connector",
        "fix": "--no-disable-hybrid",
        "engine": "vllm@0.20",
    },
    {
        "text": 'vllm serve ai21/jamba-1.5 --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"num_cpu_blocks":99}}\'',
        "severity": "error",
        "says": "does not start",
        "engine": "vllm@0.12",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] ValueError: Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one unified type.\n",
        "severity": "error",
        "says": "cannot start",
        "name": "server.log",
    },
    {
        "text": """vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --kv-transfer-config '{"kv_connector":"LMCacheMPConnector","kv_connector_module_path":"lmcache.integration.vllm.lmcache_mp_connector","kv_role":"kv_both"}'""",
        "severity": "warning",
        "engine": "vllm@0.22",
        "lmcache": "0.4.2",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve Qwen/Qwen3.6-27B --kv-offloading-size 9"},
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {
        "text": 'vllm serve google/gemma-3-27b-it --no-disable-hybrid-kv-cache-manager --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\'',
        "engine": "vllm@0.20",
    },
    {
        "text": """vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --kv-transfer-config '{"kv_connector":"LMCacheMPConnector","kv_connector_module_path":"lmcache.integration.vllm.lmcache_mp_connector","kv_role":"kv_both"}'""",
        "engine": "vllm@0.26",
        "lmcache": "0.4.7",
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
