"""The rule `memlock`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "memlock"
FIRES: list[dict[str, Any]] = [
    {
        "text": "docker run --ipc=host vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 200",
        "severity": "note",
        "says": "does not need it",
        "fix": "--ulimit memlock=-1",
    }
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "docker run --ipc=host --ulimit memlock=-1 vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 200"
    },
    {
        "text": "docker run --ipc=host --ulimit memlock=-1:-1 vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 200"
    },
    {"text": "vllm serve M --kv-offloading-size 200"},
    {"text": "docker run --ipc=host vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 8"},
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
