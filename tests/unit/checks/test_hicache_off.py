"""The rule `hicache-off`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "hicache-off"
FIRES: list[dict[str, Any]] = [
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --hicache-size 40",
        "severity": "error",
        "says": "HiCache is off",
        "fix": "--enable-hierarchical-cache",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --enable-lmcache",
        "severity": "error",
        "says": "exclude",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-size 40"
    },
    {"text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hicache --hicache-size 40"},
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
