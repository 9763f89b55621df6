"""What operators type, in many spellings, versions and containers: the traps are errors and nothing else is."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmset.cli.main import main

SITUATIONS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "situations.yaml").read_text())


@pytest.mark.parametrize("case", SITUATIONS, ids=lambda c: c["name"])
def test_situation(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in case.get("files", {}).items():
        (tmp_path / name).write_bytes(text.encode())
    code = main(["check", "-o", "json", *case["args"]])
    found = json.loads(capsys.readouterr().out)["findings"]
    by_severity = {s: {f["rule"] for f in found if f["severity"] == s} for s in ("error", "warning", "note")}
    assert by_severity["error"] == set(case["errors"]), found
    assert by_severity["warning"] >= set(case.get("warnings", ())), found
    assert not {f["rule"] for f in found} & set(case.get("absent", ())), found
    assert code == (1 if case["errors"] else 0)
