"""The rule `cross-node`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "cross-node"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B -tp 16 --nnodes 2 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "another machine",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B -pp 2 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "2 machines",
        "gpus": 1,
    },
    {
        "text": "vllm serve M -tp 8 --nnodes 2 --kv-offloading-size 100",
        "severity": "note",
        "says": "50.0 GiB",
        "engine": "vllm@0.27",
    },
    {
        "text": 'PYTHONHASHSEED=0 vllm serve Qwen/Qwen3-8B -tp 16 --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "warning",
        "says": "lower tiers",
        "gpus": 8,
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B -tp 8 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "gpus": 8,
    },
    {"text": "vllm serve M -tp 16 --nnodes 2"},
    {"text": "vllm serve M -tp 8 --nnodes 2 --kv-offloading-size 100", "engine": "vllm@0.30"},
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
