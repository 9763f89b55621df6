"""The rule `pinned-rounding`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "pinned-rounding"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M -tp 2 --kv-offloading-size 80",
        "severity": "warning",
        "says": "128 GiB in all",
        "fix": "--kv-offloading-size 64",
        "engine": "vllm@0.25",
        "host_ram": 120,
    },
    {
        "text": "vllm serve M --kv-offloading-size 33",
        "severity": "warning",
        "says": "64.0 GiB",
        "engine": "vllm@0.20",
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=33 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "64.0 GiB",
        "fix": "LMCACHE_MAX_LOCAL_CPU_SIZE=32",
        "engine": "vllm@0.10",
        "lmcache": "0.3.3",
        "host_ram": 60,
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M -tp 2 --kv-offloading-size 64", "engine": "vllm@0.25"},
    {"text": "vllm serve M -tp 2 --kv-offloading-size 80", "engine": "vllm@0.27"},
    {"text": "vllm serve M --kv-offloading-size 33"},
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":35433480192,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "engine": "vllm@0.25",
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
