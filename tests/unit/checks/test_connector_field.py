"""The rule `connector-field`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "connector-field"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_parallel_size":2}\'',
        "severity": "error",
        "says": "removed after 0.31",
        "engine": "vllm@0.32",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_rolle":1}\'',
        "severity": "error",
        "says": "no field",
        "fix": '"kv_role"',
        "engine": "vllm@0.28",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_rolle":1}\'',
        "severity": "warning",
        "says": "dropped silently",
        "engine": "vllm@0.14",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","cpu_bytes_to_use":1}\'',
        "severity": "error",
        "says": "kv_connector_extra_config",
        "engine": "vllm@0.28",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":42949672960}}\''
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_parallel_size":2}\'',
        "engine": "vllm@0.20",
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
