"""The rule `size-unit`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "size-unit"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --kv-offloading-size 40GiB",
        "severity": "error",
        "says": "plain number",
        "fix": "--kv-offloading-size 40",
    },
    {
        "text": "vllm serve M --kv-offloading-size 42949672960",
        "severity": "error",
        "says": "bytes or MiB",
        "fix": "--kv-offloading-size 40",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":64}}\'',
        "severity": "error",
        "says": "in bytes",
        "fix": "68719476736",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":"64Gi"}}\'',
        "severity": "error",
        "says": "as a number",
        "fix": "68719476736",
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=20Gi vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "`20Gi`",
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=20480 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "MiB",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-size 64gb",
        "severity": "error",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-size 1.5",
        "severity": "error",
        "says": "whole number",
    },
    {"text": 'chunk_size: 256\nmax_local_cpu_size: "20GB"\n', "severity": "error", "name": "lmcache.yaml"},
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {enablePrefixCaching: true}\n    lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "20Gi"}\n',
        "severity": "error",
        "name": "values.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --kv-offloading-size 40"},
    {"text": "vllm serve M --kv-offloading-size 37.5"},
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\''
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=20.0 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
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
