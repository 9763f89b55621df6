"""The rule `per-rank`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "per-rank"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve Qwen/Qwen3-8B -tp 8 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "8 ranks = 400 GiB",
        "fix": "LMCACHE_MAX_LOCAL_CPU_SIZE=25",
        "host_ram": 256,
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve Qwen/Qwen3-8B -tp 2 -pp 2 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "4 ranks = 200 GiB",
        "host_ram": 128,
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve Qwen/Qwen3-8B -tp 2 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "note",
        "says": "100 GiB",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 4 --enable-hierarchical-cache --hicache-size 40",
        "severity": "warning",
        "says": "half of the memory",
        "host_ram": 238,
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3.5-27B --tp 2 --enable-hierarchical-cache --hicache-size 100",
        "severity": "error",
        "says": "once for the state",
        "host_ram": 326,
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B -tp 4 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both","kv_connector_extra_config":{"lmcache.max_local_cpu_size":60}}\'',
        "severity": "error",
        "says": "240 GiB",
        "host_ram": 200,
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 8 --enable-hierarchical-cache --hicache-size 100",
        "severity": "note",
        "says": "100 GB × 8 ranks = 800 GB",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve Qwen/Qwen3-8B -tp 1 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {"text": "vllm serve M -tp 8 --kv-offloading-size 50", "host_ram": 64},
    {
        "text": 'LMCACHE_LOCAL_CPU=False LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve Qwen/Qwen3-8B -tp 8 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "host_ram": 64,
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
