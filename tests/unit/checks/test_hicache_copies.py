"""The rule `hicache-copies`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "hicache-copies"
FIRES: list[dict[str, Any]] = [
    {
        "text": "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --enable-hierarchical-cache --hicache-size 40",
        "severity": "warning",
        "says": "7/8 are copies",
    }
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --tp 8 --hicache-size 40"
    },
    {
        "text": "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 1 --enable-hierarchical-cache --hicache-size 40"
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
