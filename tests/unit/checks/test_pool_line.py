"""The rule `pool-line`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "pool-line"
FIRES: list[dict[str, Any]] = [
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] Pin budget: 0 tokens (ratio=0.000)\nINFO 09-01 10:00:00 [x.py:1] Allocating 105.60 GB host memory\n",
        "severity": "note",
        "says": "105.60 GB",
        "name": "server.log",
    }
]
SILENT: list[dict[str, Any]] = [
    {"text": "INFO 09-01 10:00:00 [x.py:1] Pin budget: 5000 tokens (ratio=0.5)\n", "name": "server.log"}
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
