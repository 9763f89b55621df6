"""The rule `env-without-effect`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "env-without-effect"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'LMCACHE_REMOTE_SERDE=cachegen vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "note",
        "says": "LMCACHE_REMOTE_URL",
    },
    {"text": "VLLM_USE_SIMPLE_KV_OFFLOAD=1 vllm serve M", "severity": "note", "says": "--kv-offloading-size"},
    {
        "text": "VLLM_USE_SIMPLE_KV_OFFLOAD=1 vllm serve M --kv-offloading-size 4",
        "severity": "warning",
        "says": "does not read",
        "engine": "vllm@0.15",
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=5 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "inside the engine only",
    },
    {
        "text": 'LMCACHE_CONFIG_FILE=a.yaml LMCACHE_CHUNK_SIZE=5 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "note",
        "says": "both set",
    },
    {
        "text": 'VLLM_USE_V1=0 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "no KV tier",
        "engine": "vllm@0.9.1",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'LMCACHE_REMOTE_SERDE=cachegen LMCACHE_REMOTE_URL=redis://h:1 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {"text": "VLLM_USE_SIMPLE_KV_OFFLOAD=1 vllm serve M --kv-offloading-size 4"},
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
