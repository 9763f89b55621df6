"""Reported configurations and sizes: each row as a command and the values that it must print."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmset.cli.main import main

HERE = Path(__file__).parent / "plan"
CASES = sorted(HERE.glob("*.yaml"))


def _runs() -> list[Any]:
    out = []
    for path in CASES:
        case = yaml.safe_load(path.read_text())
        out += [
            pytest.param(case.get("files", {}), run, id=f"{case['row']}-{n}")
            for n, run in enumerate(case["runs"])
        ]
    return out


@pytest.mark.parametrize(("files", "run"), _runs())
def test_case(
    files: dict[str, Any],
    run: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert main([*map(str, run["command"]), "-o", "json"]) == run.get("exit", 0)
    result = json.loads(capsys.readouterr().out)
    for path, expected in run["expect"].items():
        found = _at(result, path)
        if isinstance(expected, dict):
            assert (
                expected.get("at_least", float("-inf")) <= found <= expected.get("at_most", float("inf"))
            ), path
        else:
            assert found == expected, path


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else value[part]
    return value
