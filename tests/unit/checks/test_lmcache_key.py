"""The rule `lmcache-key`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "lmcache-key"
FIRES: list[dict[str, Any]] = [
    {
        "text": "local_device: cpu\nmax_local_cache_size: 20\nchunk_size: 256\n",
        "severity": "error",
        "says": "`local_cpu` now",
        "fix": "local_cpu: true",
        "name": "lmcache.yaml",
    },
    {
        "text": "chunk_size: 256\nmax_local_cpu_sizes: 20\n",
        "severity": "error",
        "says": "did you mean",
        "name": "lmcache.yaml",
    },
    {"text": "chunk_size: 256\nsomething_else: 20\n", "severity": "warning", "name": "lmcache.yaml"},
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both","kv_connector_extra_config":{"lmcache.max_local_cache_size":5}}\'',
        "severity": "error",
        "says": "max_local_cpu_size",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "chunk_size: 256\nlocal_cpu: true\nmax_local_cpu_size: 20\n", "name": "lmcache.yaml"}
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
