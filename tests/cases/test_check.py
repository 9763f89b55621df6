"""Real situations that operators reported: what `warmset check` must say about each, and what it must not."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmset.cli.main import main

HERE = Path(__file__).parent / "check"
CASES = sorted(HERE.glob("*/expect.yaml"))


def _runs() -> list[Any]:
    out = []
    for path in CASES:
        expected = yaml.safe_load(path.read_text())
        for number, run in enumerate(expected["runs"]):
            out.append(pytest.param(path.parent, run, id=f"{expected['row']}-{number}"))
    return out


@pytest.mark.parametrize(("folder", "run"), _runs())
def test_case(
    folder: Path, run: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    code = main(["check", "-o", "json", *run["args"]])
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    found = result["findings"]
    shown = "\n".join(
        f"{f['severity']} {f['rule']} {f['file']}:{f['line']}:{f['column']} {f['message']} | {f['fix']}"
        for f in found
    )
    for wanted in run["findings"]:
        assert any(_matches(wanted, f) for f in found), f"missing {wanted}\n{shown}"
    for rule in run.get("absent", ()):
        assert rule not in {f["rule"] for f in found}, f"ruled out: {rule}\n{shown}"
    expected_errors = {w["rule"] for w in run["findings"] if w["severity"] == "error"}
    beyond = [f["rule"] for f in found if f["severity"] == "error" and f["rule"] not in expected_errors]
    assert not beyond, f"errors beyond the expected: {beyond}\n{shown}"
    for rule in run.get("not_checked", ()):
        assert rule in {n["rule"] for n in result["not_checked"]}, result["not_checked"]
    assert code == (1 if expected_errors else 0)


def _matches(wanted: dict[str, Any], finding: dict[str, Any]) -> bool:
    return (
        finding["rule"] == wanted["rule"]
        and finding["severity"] == wanted["severity"]
        and wanted.get("says", "") in finding["message"]
        and wanted.get("fix", "") in (finding["fix"] or "")
        and all(finding[k] == wanted[k] for k in ("file", "line", "column", "confidence") if k in wanted)
    )
