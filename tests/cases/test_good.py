"""Correct configurations, written the way that guides, charts and compose files write them: no error in any."""

import json
from pathlib import Path

import pytest

from warmset.cli.main import main

HERE = Path(__file__).parent / "good"
INPUTS = sorted(p.name for p in HERE.iterdir())


def test_there_are_enough() -> None:
    assert len(INPUTS) >= 40


@pytest.mark.parametrize("name", INPUTS)
def test_no_error(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(HERE)
    code = main(["check", "-o", "json", name])
    result = json.loads(capsys.readouterr().out)
    assert [f for f in result["findings"] if f["severity"] == "error"] == []
    assert code == 0
    assert result["assumed"]["server"]
    assert result["rules_run"] > 40
    assert not any("passed over" in note for note in result["notes"])
