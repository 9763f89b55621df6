"""The rule `helm-values`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "helm-values"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    lmCacheConfig: {enabled: true, cpuOffloadingBufferSize: "20"}\n',
        "severity": "error",
        "says": "lmcacheConfig",
        "name": "values.yaml",
    },
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {enablePrefixCaching: true}\n    lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "0.5"}\n',
        "severity": "warning",
        "says": "truncates",
        "name": "values.yaml",
    },
    {
        "text": "servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {enablePrefixCaching: true}\n    lmcacheConfig: {enabled: true, enablePD: false}\n",
        "severity": "error",
        "says": "enablePD",
        "name": "values.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {enablePrefixCaching: true}\n    lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "20"}\n',
        "name": "values.yaml",
    },
    {
        "text": "kind: VLLMRuntime\napiVersion: x/v1\nspec:\n  lmCacheConfig: {enabled: true}\n",
        "name": "r.yaml",
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
