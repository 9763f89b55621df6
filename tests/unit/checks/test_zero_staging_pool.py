"""The rule `zero-staging-pool`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "zero-staging-pool"
FIRES: list[dict[str, Any]] = [
    {
        "text": "local_cpu: false\nmax_local_cpu_size: 0\nlocal_disk: file:///d/\nmax_local_disk_size: 5\n",
        "severity": "error",
        "says": "staged",
        "name": "lmcache.yaml",
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=0 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=5 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
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
