"""The rule `disk-tier-inert`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "disk-tier-inert"
FIRES: list[dict[str, Any]] = [
    {
        "text": "chunk_size: 256\nmax_local_disk_size: 600\n",
        "severity": "note",
        "says": "no path",
        "name": "lmcache.yaml",
    },
    {
        "text": "chunk_size: 256\nlocal_disk: file:///d/\n",
        "severity": "warning",
        "says": "no size",
        "name": "lmcache.yaml",
    },
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {enablePrefixCaching: true}\n    lmcacheConfig: {enabled: true, cpuOffloadingBufferSize: "9", diskOffloadingBufferSize: "100"}\n',
        "severity": "note",
        "says": "the chart sets no LMCACHE_LOCAL_DISK",
        "name": "values.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "chunk_size: 256\nlocal_disk: file:///d/\nmax_local_disk_size: 600\n", "name": "lmcache.yaml"},
    {
        "text": 'servingEngineSpec:\n  modelSpec:\n  - name: m\n    modelURL: Qwen/Qwen3-8B\n    vllmConfig: {enablePrefixCaching: true}\n    env: [{name: LMCACHE_LOCAL_DISK, value: "file:///d/"}]\n    lmcacheConfig: {enabled: true, diskOffloadingBufferSize: "100"}\n',
        "name": "values.yaml",
    },
    {"text": "chunk_size: 256\nmax_local_disk_size: 0\n", "name": "lmcache.yaml"},
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
