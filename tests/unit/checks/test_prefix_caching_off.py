"""The rule `prefix-caching-off`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "prefix-caching-off"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --no-enable-prefix-caching --kv-offloading-size 20",
        "severity": "warning",
        "says": "V0",
        "fix": "--enable-prefix-caching",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --no-enable-prefix-caching --kv-transfer-config \'{"kv_connector":"SimpleCPUOffloadConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\'',
        "severity": "error",
        "says": "does nothing",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --disable-radix-cache",
        "severity": "error",
        "says": "excludes HiCache",
    },
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {maxModelLen: 4096}\n    lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "20"}\n',
        "severity": "warning",
        "says": "the chart switches",
        "name": "values.yaml",
    },
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {enablePrefixCaching: false}\n    lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "20"}\n',
        "severity": "warning",
        "name": "values.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --kv-offloading-size 20"},
    {"text": "vllm serve M --no-enable-prefix-caching"},
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {enablePrefixCaching: true}\n    lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "20"}\n',
        "name": "values.yaml",
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
