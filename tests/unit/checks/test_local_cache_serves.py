"""The rule `local-cache-serves`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "local-cache-serves"
FIRES: list[dict[str, Any]] = [
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] Reqid: a, Total tokens 15444, LMCache hit tokens: 15444, need to load: 3\n",
        "severity": "note",
        "says": "3 were loaded",
        "name": "server.log",
    }
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] Reqid: a, Total tokens 836, LMCache hit tokens: 768, need to load: -64\n",
        "name": "server.log",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] Reqid: a, Total tokens 9000, LMCache hit tokens: 8000, need to load: 8000\n",
        "name": "server.log",
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
