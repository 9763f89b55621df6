"""Reported situations with counters: a real page of metrics, and the answer that it must get."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from warmset.cli.main import main

HERE = Path(__file__).parent / "meters"
CASES = sorted(HERE.glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=[p.stem for p in CASES])
def test_situation(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = yaml.safe_load(path.read_text())
    assert case["row"] == path.stem
    for name, arm in case["arms"].items():
        arguments = [str(HERE / arm["page"]), "-o", "json", "--quiet", *arm.get("options", [])]
        if arm.get("log"):
            arguments += ["--log", str(HERE / arm["log"])]
        if arm.get("save"):
            arguments += ["--save", str(tmp_path / f"{name}.json")]
        if arm.get("baseline"):
            arguments += ["--baseline", str(tmp_path / f"{arm['baseline']}.json")]
        code = main(["measure", *arguments])
        said = json.loads(capsys.readouterr().out)
        assert code == (3 if said["verdict"] == "undecided" else 0)
        _hold(said, arm["expect"], f"{case['row']} {name}")


def _hold(said: dict[str, Any], expect: dict[str, Any], where: str) -> None:
    whole = json.dumps(said)
    assert said["verdict"] in expect["verdict"], (where, said["verdict"], said["reason"], said["summary"])
    meters = said["meters"]
    for key in ("device", "external", "combined", "external_of_queries"):
        if key in expect:
            assert meters["hit_ratio"][key]["value"] == pytest.approx(expect[key], abs=1e-4), (where, key)
    if "reason" in expect:
        assert said["reason"] == expect["reason"], where
    if "note" in expect:
        assert any(expect["note"] in note for note in said["notes"]), (where, said["notes"])
    if "absent" in expect:
        assert expect["absent"] not in whole, where
    if "metric" in expect:
        assert expect["metric"] in whole, where
    if "store_bytes" in expect:
        assert meters["store_bytes"] == expect["store_bytes"], where
    if "bytes_per_token" in expect:
        assert said["tier"]["bytes_per_token"] == pytest.approx(expect["bytes_per_token"]), where
    for tier, tokens in expect.get("tiers", {}).items():
        assert meters["tokens_by_tier"][tier] == tokens, where
