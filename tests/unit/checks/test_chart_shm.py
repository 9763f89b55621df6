"""The rule `chart-shm`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "chart-shm"
FIRES: list[dict[str, Any]] = [
    {
        "text": "servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {tensorParallelSize: 2, enablePrefixCaching: true}\n",
        "severity": "warning",
        "says": "shmSize",
        "fix": "20Gi",
        "name": "values.yaml",
    },
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    tag: v0.28.0\n    repository: vllm/vllm-openai\n    shmSize: 90Gi\n    vllmConfig: {enablePrefixCaching: true, extraArgs: ["--kv-offloading-size", "64"]}\n',
        "severity": "warning",
        "says": "no effect here",
        "name": "values.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    shmSize: 20Gi\n    vllmConfig: {tensorParallelSize: 2, enablePrefixCaching: true}\n",
        "name": "values.yaml",
    },
    {
        "text": "servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {tensorParallelSize: 1, enablePrefixCaching: true}\n",
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
