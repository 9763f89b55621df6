"""The rule `kv-rate`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "kv-rate"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve Qwen/Qwen3-32B",
        "severity": "note",
        "says": "48.0 KiB",
        "also": {
            "s.log": "INFO 09-01 10:00:00 [x.py:1] Available KV cache memory: 10.55 GiB\nINFO 09-01 10:00:00 [x.py:1] GPU KV cache size: 230,528 tokens\n"
        },
    },
    {
        "text": "vllm serve deepseek-ai/DeepSeek-V4-Flash",
        "severity": "note",
        "says": "not valid",
        "also": {
            "s.log": "INFO 09-01 10:00:00 [x.py:1] Available KV cache memory: 10.55 GiB\nINFO 09-01 10:00:00 [x.py:1] GPU KV cache size: 230,528 tokens\n"
        },
    },
]
SILENT: list[dict[str, Any]] = [{"text": "vllm serve Qwen/Qwen3-32B"}]


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
