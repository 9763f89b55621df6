"""The rule `bench-no-reuse`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "bench-no-reuse"
FIRES: list[dict[str, Any]] = [
    {"text": "vllm bench serve --dataset-name random", "severity": "warning", "says": "random"},
    {
        "text": "python benchmarks/benchmark_serving.py --dataset burstgpt",
        "severity": "note",
        "says": "burstgpt",
    },
    {
        "text": "vllm bench serve --dataset-name prefix_repetition --prefix-repetition-num-prefixes 500 --num-prompts 24",
        "severity": "warning",
        "says": "no prefix comes back",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm bench serve --dataset-name random --random-prefix-len 8000"},
    {
        "text": "vllm bench serve --dataset-name prefix_repetition --prefix-repetition-num-prefixes 5 --num-prompts 240"
    },
    {"text": "vllm serve M"},
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
