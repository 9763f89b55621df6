"""The rule `tier-below-prompt`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "tier-below-prompt"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 20000 --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":268435456,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "error",
        "says": "2,048 tokens",
    },
    {
        "text": 'vllm serve my-model --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":268435456,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\'',
        "severity": "error",
        "says": "disk hits are impossible",
    },
    {
        "text": "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 131072 --kv-offloading-size 2",
        "severity": "warning",
        "says": "cannot hold one prompt",
    },
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=1 vllm serve Qwen/Qwen2.5-0.5B-Instruct --max-model-len 9300 --max-num-seqs 10 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "1.06 GiB",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 32768 --kv-offloading-size 64"},
    {"text": "vllm serve my-model --kv-offloading-size 64"},
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
