"""The rule `unsupported-geometry`: where it speaks, and where it keeps silent."""
# commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "unsupported-geometry"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve zai-org/GLM-5.3-Flash --kv-offloading-size 64",
        "severity": "error",
        "says": "assertion",
        "engine": "vllm@0.28",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] AssertionError: tokens_per_block % tokens_per_hash == 0\n",
        "severity": "error",
        "name": "server.log",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve zai-org/GLM-5.3-Flash --kv-offloading-size 64", "engine": "vllm@0.30"},
    {"text": "vllm serve zai-org/GLM-5.3-Flash", "engine": "vllm@0.28"},
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
