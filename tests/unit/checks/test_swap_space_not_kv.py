"""The rule `swap-space-not-kv`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "swap-space-not-kv"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --swap-space 64",
        "severity": "warning",
        "says": "no effect",
        "fix": "--kv-offloading-size 64",
        "engine": "vllm@0.12",
    },
    {
        "text": "vllm serve M --swap-space 64",
        "severity": "error",
        "says": "unrecognized arguments",
        "engine": "vllm@0.20",
    },
    {"text": "vllm serve M --swap-space=4", "severity": "warning"},
    {
        "text": 'vllm serve Qwen/Qwen3-8B --swap-space 4 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "note",
        "engine": "vllm@0.11",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M"},
    {"text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B "},
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
