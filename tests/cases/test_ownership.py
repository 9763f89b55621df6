"""Every reported situation has an owner, and whoever is named has really something to show."""

import json
import re
from pathlib import Path

import yaml

HERE = Path(__file__).parent


def _rows(shared: Path) -> set[str]:
    lines = (shared / "cases" / "operator_cases.jsonl").read_text().splitlines()
    return {json.loads(line)["id"] for line in lines}


def _owned() -> dict[str, set[str]]:
    listed = yaml.safe_load((HERE / "owners.yaml").read_text())
    return {
        "check": {p.name for p in (HERE / "check").iterdir()},
        "plan": {p.stem for p in (HERE / "plan").glob("*.yaml")},
        **{room: set(rows) for room, rows in listed.items()},
    }


def test_every_row_has_an_owner(shared: Path) -> None:
    rows = _rows(shared)
    assert len(rows) == 134
    owned = set().union(*_owned().values())
    assert rows - owned == set()
    assert owned - rows == set()


def test_every_case_cites_its_row() -> None:
    for path in (*HERE.glob("check/*/expect.yaml"), *HERE.glob("plan/*.yaml"), *HERE.glob("meters/*.yaml")):
        expected = path.parent.name if path.name == "expect.yaml" else path.stem
        text = yaml.safe_load(path.read_text())
        assert text.get("row", text.get("id", expected)) == expected
        assert path.stat().st_size > 20


def test_curve_rows_are_tested() -> None:
    text = (HERE / "test_curve.py").read_text()
    assert set(re.findall(r'"""([A-M]\d+):', text)) == _owned()["curve"]


def test_meters_rows_are_tested() -> None:
    """Each is a file that the tests of the meters run."""
    missing = {row for row in _owned()["meters"] if not (HERE / "meters" / f"{row}.yaml").is_file()}
    assert missing == set()


def test_what_does_not_run_says_why(shared: Path) -> None:
    rows = _rows(shared)
    for entry in yaml.safe_load((HERE / "not_run.yaml").read_text()):
        assert entry["row"] in rows
        assert entry["part"]
        assert entry["reason"]
