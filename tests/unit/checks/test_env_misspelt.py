"""The rule `env-misspelt`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "env-misspelt"
FIRES: list[dict[str, Any]] = [
    {
        "text": "LM_CACHE_CHUNK_SIZE=256\n",
        "severity": "error",
        "says": "`LMCACHE_CHUNK_SIZE`",
        "fix": "LMCACHE_CHUNK_SIZE=256",
        "name": "x.env",
    },
    {
        "text": "LM_CACHE_MAX_LOCAL_CACHE_SIZE=500\n",
        "severity": "error",
        "fix": "LMCACHE_MAX_LOCAL_CPU_SIZE=500",
        "name": "x.env",
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZES=5 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "LMCACHE_MAX_LOCAL_CPU_SIZE",
    },
    {
        "text": 'lmcache_chunk_size=5 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "LMCACHE_CHUNK_SIZE",
    },
    {"text": "PYTHON_HASH_SEED=0 vllm serve M", "severity": "error", "says": "PYTHONHASHSEED"},
    {"text": "VLLM_KV_OFFLOADING_SIZE=4 vllm serve M", "severity": "error", "says": "reads no"},
    {
        "text": 'LMCACHE_FOO_BAR_BAZ=5 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
    },
    {
        "text": "VLLM_USE_SIMPLE_KV_OFFLOADING=1 vllm serve M --kv-offloading-size 40",
        "severity": "warning",
        "fix": "VLLM_USE_SIMPLE_KV_OFFLOAD=1",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'LMCACHE_CHUNK_SIZE=256 PYTHONHASHSEED=0 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {"text": "HF_TOKEN=x vllm serve M"},
    {"text": "VLLM_NIXL_SIDE_CHANNEL_PORT=5600 VLLM_LOGGING_LEVEL=INFO vllm serve M --kv-offloading-size 40"},
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
