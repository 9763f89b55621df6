"""The rule `reload-livelock`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

LINE = "[2025-11-05 08:00:00,000] LMCache INFO: Reqid: c-7, Total tokens 40072, LMCache hit tokens: 32768, need to load: -64\n"

RULE = "reload-livelock"
FIRES: list[dict[str, Any]] = [
    {"text": LINE * 160, "severity": "error", "says": "160 times", "name": "server.log"}
]
SILENT: list[dict[str, Any]] = [{"text": LINE * 3, "name": "server.log"}]


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
