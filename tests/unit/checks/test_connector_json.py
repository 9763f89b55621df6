"""The rule `connector-json`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "connector-json"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both",}\'',
        "severity": "error",
        "says": "comma",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'("kv_connector":"LMCacheConnectorV1")\'',
        "severity": "error",
        "says": "parentheses",
    },
    {
        "text": "vllm serve M --kv-transfer-config \"{'kv_connector':'X'}\"",
        "severity": "error",
        "says": "double quotes",
    },
    {
        "text": "vllm serve M --kv-transfer-config {kv_connector:X,kv_role:kv_both}",
        "severity": "error",
        "says": "the shell removed",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"X","kv_connector_extra_config":{"a":True}}\'',
        "severity": "error",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"X"\'',
        "severity": "error",
        "says": "braces",
    },
    {
        "text": "vllm serve M --kv-offloading-size 4 --speculative-config '{\"method\":}'",
        "severity": "error",
        "says": "--speculative-config",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {"text": 'vllm serve M --kv-transfer-config "$KV"'},
    {"text": 'vllm serve M --kv-transfer-config "$(cat kv.json)"'},
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
