"""The rule `expandable-segments`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "expandable-segments"
FIRES: list[dict[str, Any]] = [
    {
        "text": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve M --kv-offloading-size 4",
        "severity": "error",
        "says": "refuses",
    },
    {
        "text": "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True vllm serve M --kv-offloading-size 4",
        "severity": "error",
    },
    {
        "text": "PYTORCH_ALLOC_CONF=expandable_segments:True vllm serve M --kv-offloading-size 4",
        "severity": "warning",
        "says": "newer torch",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve M"},
    {
        "text": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve M --kv-offloading-size 4 --enable-sleep-mode"
    },
    {"text": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False vllm serve M --kv-offloading-size 4"},
    {
        "text": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve M --kv-offloading-size 4",
        "engine": "vllm@0.18",
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
