"""The rule `pin-limit`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "pin-limit"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":600000000000}}\'',
        "severity": "warning",
        "says": "512 GiB",
        "engine": "vllm@0.28",
    },
    {"text": "vllm serve M --kv-offloading-size 512", "severity": "warning", "engine": "vllm@0.30"},
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] cudaHostRegister failed for rank=3 (code=1)\n",
        "severity": "warning",
        "says": "not pinned",
        "name": "server.log",
    },
    {
        "text": "docker run --ipc=host rocm/vllm:v0.28.0 vllm serve M --kv-offloading-size 300",
        "severity": "warning",
        "says": "ROCm",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":549000000000}}\'',
        "engine": "vllm@0.28",
    },
    {"text": "vllm serve M --kv-offloading-size 511", "engine": "vllm@0.30"},
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
