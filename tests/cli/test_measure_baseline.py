"""What `measure` says about a baseline: its units, its tier, and prompts that forbid comparing latencies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).parents[1] / "cases" / "meters"
_TAKEN_WITH_A_TIER = "itself taken with a tier"


@pytest.fixture
def against(warmset: Callable[..., Any], shared: Path, tmp_path: Path) -> Callable[..., Any]:
    """`against(before, after, …)` measures `after` with `before` saved as the baseline."""

    def run(before: str, after: str, *options: str) -> Any:
        def pair(name: str) -> list[Path]:
            if name.endswith(".prom"):
                return [CASES / name]
            return [shared / "metrics" / f"{name}.{edge}.prom" for edge in ("start", "end")]

        saved = tmp_path / "before.json"
        warmset("measure", *pair(before), "--save", saved, "--quiet")
        return warmset("measure", *pair(after), "--baseline", saved, "--quiet", *options)

    return run


def test_comparisons_carry_their_units(against: Callable[..., Any]) -> None:
    found = against("chat_off", "chat_slow", "-o", "json").valid("measure")["comparisons"]
    assert {c["meter"]: c["unit"] for c in found} == {
        "combined hit ratio": "ratio", "TTFT p50": "seconds", "TTFT p90": "seconds", "TTFT p99": "seconds",
    }  # fmt: skip
    said = against("chat_off", "chat_slow").out
    table = said.partition("Against the baseline")[2].partition("Next")[0]
    rows = [line for line in table.splitlines() if "TTFT" in line or "hit ratio" in line]
    assert len(rows) == 4
    for row in rows:
        assert row.count(" %" if "ratio" in row else " s") + row.count(" ms") >= 2, row


@pytest.mark.parametrize("after", ["G1.on.prom"])
def test_a_verdict_names_units(against: Callable[..., Any], after: str) -> None:
    summary = against("G1.off.prom", after, "-o", "json").json()["summary"]
    assert "TTFT p50 (6.25 s → 14.6 s)" in summary


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("E7.only.prom", "E7.only.prom", True),
        ("chat_on", "chat_slow", True),
        ("chat_off", "chat_on", False),
        ("chat_on", "chat_off", False),
    ],
)
def test_a_baseline_with_a_tier_is_named(
    against: Callable[..., Any], before: str, after: str, said: bool
) -> None:
    notes = against(before, after, "-o", "json").json()["notes"]
    assert any(_TAKEN_WITH_A_TIER in note for note in notes) == said


def test_other_prompts_compare_no_latency(against: Callable[..., Any]) -> None:
    found = against("light_base", "G1.on.prom", "-o", "json").valid("measure")
    assert any("mean prompt" in change for change in found["traffic_changes"])
    assert [c["meter"] for c in found["comparisons"]] == ["combined hit ratio"]
    assert any("latencies are not compared" in note for note in found["notes"])


def test_a_baseline_whose_tier_is_damaged_is_refused(
    warmset: Callable[..., Any], shared: Path, tmp_path: Path
) -> None:
    page, saved = shared / "metrics" / "chat_on.end.prom", tmp_path / "before.json"
    warmset("measure", page, "--save", saved, "--quiet")
    saved.write_text(json.dumps(json.loads(saved.read_text()) | {"tier": "none"}))
    ran = warmset("measure", page, "--baseline", saved, "--quiet")
    assert ran.code == 2
    assert "damaged" in ran.err


def test_an_idle_window_has_observed_nothing(warmset: Callable[..., Any], shared: Path) -> None:
    page = shared / "metrics" / "light_big.end.prom"
    said = warmset("measure", page, page, "--quiet").out
    rows = [line for line in said.splitlines() if "TTFT" in line]
    assert len(rows) == 3
    assert "not exported" not in "".join(rows)
    assert "".join(rows).count("nothing observed") == 2
