"""The rule `hash-seed`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "hash-seed"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "error",
        "says": "after a restart",
        "fix": "PYTHONHASHSEED=0",
        "engine": "vllm@0.28",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "warning",
        "says": "0.28 and older",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --prefix-caching-hash-algo xxhash --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "error",
        "says": "needs PYTHONHASHSEED",
        "engine": "vllm@0.30",
    },
    {
        "text": 'LMCACHE_REMOTE_URL=redis://h:1 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "differs in every process",
        "engine": "vllm@0.20",
    },
    {
        "text": 'export LMCACHE_REMOTE_URL=redis://h:1\nvllm serve Qwen/Qwen3-8B --port 1 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'\nvllm serve Qwen/Qwen3-8B --port 2 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "2 engines",
        "engine": "vllm@0.20",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] Centralized cache sharing detected but PYTHONHASHSEED not set\n",
        "severity": "error",
        "says": "random",
        "name": "server.log",
    },
    {
        "text": 'PYTHONHASHSEED=random vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "error",
        "engine": "vllm@0.28",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'PYTHONHASHSEED=0 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "engine": "vllm@0.28",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "engine": "vllm@0.30",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\'',
        "engine": "vllm@0.28",
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=9 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "engine": "vllm@0.20",
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
