"""The rule `disk-tier-eviction`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "disk-tier-eviction"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  hostIPC: true\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.30.0\n    args: ["--model", "M", "--kv-transfer-config", \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\']\n    volumeMounts: [{name: k, mountPath: /kv}]\n  volumes:\n  - {name: k, emptyDir: {sizeLimit: 100Gi}}\n',
        "severity": "warning",
        "says": "evicts the pod",
        "name": "pod.yaml",
    }
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  hostIPC: true\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.30.0\n    args: ["--model", "M", "--kv-transfer-config", \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\']\n    volumeMounts: [{name: k, mountPath: /kv}]\n  volumes:\n  - {name: k, persistentVolumeClaim: {claimName: k}}\n',
        "name": "pod.yaml",
    },
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  hostIPC: true\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.30.0\n    args: ["--model", "M", "--kv-transfer-config", \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]}}\']\n    volumeMounts: [{name: k, mountPath: /kv}]\n  volumes:\n  - {name: k, emptyDir: {}}\n',
        "name": "pod.yaml",
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
