"""Where each rule speaks and where it keeps silent: `cases/RULE.yaml`, commands and manifests as they are typed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

FILES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
CASES = {file.stem: yaml.safe_load(file.read_text()) for file in FILES}


def _each(kind: str) -> list[Any]:
    return [
        pytest.param(rule, case, id=f"{rule}-{number}")
        for rule, cases in CASES.items()
        for number, case in enumerate(cases[kind], 1)
    ]


@pytest.mark.parametrize(("rule", "case"), _each("fires"))
def test_speaks(checked: Any, rule: str, case: dict[str, Any]) -> None:
    found = [f for f in checked(case) if f.rule == rule]
    assert any(
        f.severity == case["severity"]
        and case.get("says", "") in f.message
        and case.get("fix", "") in (f.fix or "")
        for f in found
    ), found


@pytest.mark.parametrize(("rule", "case"), _each("silent"))
def test_keeps_silent(checked: Any, rule: str, case: dict[str, Any]) -> None:
    assert [f for f in checked(case) if f.rule == rule] == []


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES)
def test_both_kinds(cases: dict[str, Any]) -> None:
    assert set(cases) == {"fires", "silent"}
    assert all(cases.values())
