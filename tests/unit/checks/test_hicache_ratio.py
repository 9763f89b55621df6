"""The rule `hicache-ratio`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "hicache-ratio"
FIRES: list[dict[str, Any]] = [
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-ratio 1.0 --hicache-storage-backend mooncake",
        "severity": "error",
        "says": "reads from the storage backend are off",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-ratio 0.5",
        "severity": "error",
        "says": "only mirrors",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-ratio 2 --hicache-size 16",
        "severity": "note",
        "says": "overrides",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-size 16 --hicache-storage-backend mooncake",
        "severity": "error",
        "says": "prefetch capacity",
        "also": {
            "s.log": "[2026-01-01 10:00:00] KV Cache is allocated. #tokens: 9000, K size: 20.00 GB, V size: 20.00 GB\n"
        },
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-ratio 2"
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-size 64"
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
