"""The rule `hybrid-manager`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "hybrid-manager"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve Qwen3.5-122B --kv_offloading_backend native --kv_offloading_size 80 --disable-hybrid-kv-cache-manager",
        "severity": "error",
        "says": "does not start",
        "fix": "remove",
    },
    {
        "text": "vllm serve google/gemma-3-27b-it --kv-offloading-size 8 --disable-hybrid-kv-cache-manager",
        "severity": "warning",
        "says": "windows",
    },
    {
        "text": "vllm serve Qwen/Qwen3-8B --kv-offloading-size 8 --disable-hybrid-kv-cache-manager",
        "severity": "note",
        "says": "not needed",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve Qwen3.5-122B --kv-offloading-size 80"},
    {"text": "vllm serve Qwen3.5-122B --disable-hybrid-kv-cache-manager"},
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
