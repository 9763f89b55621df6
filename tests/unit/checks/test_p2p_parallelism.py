"""The rule `p2p-parallelism`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "p2p-parallelism"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B -tp 1 --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"p2p","host":"10.0.0.7"}]}}\'\nvllm serve Qwen/Qwen3-8B -tp 2 --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"p2p","host":"10.0.0.7"}]}}\'',
        "severity": "warning",
        "says": "1, 2",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] rejecting peer connect: block_len mismatch remote=389120 local=196608\n",
        "severity": "warning",
        "says": "inert",
        "name": "server.log",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B -tp 2 --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"p2p","host":"10.0.0.7"}]}}\'\nvllm serve Qwen/Qwen3-8B -tp 2 --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"p2p","host":"10.0.0.7"}]}}\''
    }
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
