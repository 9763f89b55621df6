"""The rule `warmset-tier`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "warmset-tier"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"file:///kv"}]}}\'',
        "severity": "warning",
        "says": "nothing bounds",
        "fix": "capacity_bytes",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","capacity_bytes":1000000000}]}}\'',
        "severity": "error",
        "says": "lacks `store`",
        "fix": "file:///kv",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"file:///kv","capacity_byte":1000000000}]}}\'',
        "severity": "error",
        "says": "no key `capacity_byte`",
        "fix": "capacity_bytes",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"/kv","capacity_bytes":1000000000}]}}\'',
        "severity": "error",
        "says": "`/kv` is not a store",
        "fix": "file:///path",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"redis://:pw@host/0","capacity_bytes":1000000000}]}}\'',
        "severity": "error",
        "says": "carries a password",
        "fix": "WARMSET_REDIS_PASSWORD",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"file:///kv","capacity_bytes":"2TiB"}]}}\'',
        "severity": "error",
        "says": "`capacity_bytes` of the warmset tier is `2TiB`",
        "fix": "number above 0",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","store":"file:///kv","capacity_bytes":1000000000}]}}\'',
        "severity": "error",
        "says": "lives in `warmset.vllm.tier`",
        "fix": "module_path",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"file:///kv","capacity_bytes":1000000000}]}}\'',
        "engine": "vllm@0.27",
        "severity": "error",
        "says": "needs vLLM 0.28",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"file:///kv","capacity_bytes":1000000000,"enable_kv_events":true}]}}\''
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"s3://bucket/kv","capacity_bytes":1000000000,"endpoint":"http://minio:9000","tenant":"a"}]}}\''
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\''
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
