"""Rates, increases and quantiles are those of a real Prometheus server."""

import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from e2e import prometheus as prom
from warmset.cli.main import main
from warmset.meters.exposition import parse
from warmset.meters.quantiles import histogram_quantile
from warmset.meters.rates import increase, rate, track

pytestmark = pytest.mark.e2e

NOW = float(int(time.time()) // 15 * 15)


def _counters(seed: int) -> dict[str, list[tuple[float, float]]]:
    """Random counters: resets, gaps, late starts, early ends."""
    rng, found = random.Random(seed), {}
    for index in range(40):
        value, samples = rng.choice([0.0, rng.uniform(0, 1e6)]), []
        first, last = rng.choice([0, 0, rng.randint(0, 60)]), rng.choice([120, 120, rng.randint(61, 120)])
        for step in range(first, last + 1):
            value = 0.0 if rng.random() < 0.02 else value + rng.choice([0, rng.uniform(0, 50)])
            if rng.random() > 0.05:
                samples.append((NOW - 1800 + step * 15 + rng.randint(0, 3), round(value, 3)))
        found[f"s{index}"] = samples
    return found


def _page(shared: Path, name: str) -> Any:
    return parse((shared / "metrics" / f"{name}.prom").read_text())


def _history(shared: Path) -> str:
    """chat_off from two hours to one hour ago, then chat_on for the last 30 minutes, as scrapes every 15 s."""
    lines: dict[str, list[str]] = {}
    types: dict[str, str] = {}
    for run, begin, length in (("chat_off", NOW - 7200, 3600), ("chat_on", NOW - 1800, 1800)):
        start, end = _page(shared, f"{run}.start"), _page(shared, f"{run}.end")
        for name, rows in end.samples.items():
            if not name.startswith("vllm:") or name.endswith("_created"):
                continue
            family = next(
                (name.removesuffix(s) for s in ("_bucket", "_sum", "_count", "_total") if name.endswith(s)),
                name,
            )
            family = family if family in end.types or f"{family}_total" in end.types else name
            kind = end.types.get(family) or end.types.get(f"{family}_total") or "gauge"
            types[family] = kind if name != family or kind != "counter" else "unknown"
            old = dict(start.samples.get(name, ()))
            for labels, value in rows:
                text = ",".join(f'{k}="{v}"' for k, v in (*labels, ("job", "vllm"), ("instance", "a:8000")))
                for step in range(0, length + 1, 15):
                    base = old.get(labels, 0.0)
                    shown = value if kind == "gauge" else base + (value - base) * step / length
                    lines.setdefault(family, []).append(f"{name}{{{text}}} {shown!r} {begin + step:.3f}")
    out = []
    for family, rows in lines.items():
        out.append(f"# TYPE {family} {types[family]}")
        # OpenMetrics wants all points of one series together.
        out.extend(sorted(rows, key=lambda row: (row.rsplit(" ", 2)[0], float(row.rsplit(" ", 1)[1]))))
    return "\n".join(out) + "\n"


@pytest.fixture(scope="module")
def server(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    text = _history(shared)
    for name, samples in _counters(7).items():
        text += f"# TYPE {name} unknown\n" + "".join(f"{name} {v!r} {t:.3f}\n" for t, v in samples)
    with prom.prometheus(tmp_path_factory.mktemp("prometheus"), text + "# EOF\n") as url:
        yield url


def test_rates_and_increases_are_the_servers(server: str) -> None:
    compared = 0
    for name, samples in _counters(7).items():
        for at, length in ((NOW, 1800), (NOW - 300, 600), (NOW - 7, 120), (NOW - 900, 61)):
            inside = [(t, v) for t, v in samples if at - length <= t <= at]
            for function, ours in (("increase", increase), ("rate", rate)):
                answer = prom.query(server, f"{function}({name}[{length}s])", at)
                mine = ours(track(inside), at - length, at)
                assert bool(answer) == (mine is not None), (name, at, length)
                if answer:
                    assert mine == pytest.approx(float(answer[0]["value"][1]), rel=1e-12, abs=1e-12)
                    compared += 1
    assert compared > 200


def test_quantiles_are_the_servers(server: str) -> None:
    buckets = prom.query(server, "increase(vllm:time_to_first_token_seconds_bucket[1800s])", NOW)
    pairs = [(float(b["metric"]["le"]), float(b["value"][1])) for b in buckets]
    for q in (-1, 0, 0.001, 0.05, 0.5, 0.9, 0.95, 0.99, 0.999, 1, 2):
        answer = prom.query(
            server, f"histogram_quantile({q}, increase(vllm:time_to_first_token_seconds_bucket[1800s]))", NOW
        )
        assert histogram_quantile(q, pairs) == pytest.approx(
            float(answer[0]["value"][1]), rel=1e-12, nan_ok=True
        )


def test_before_and_after(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        [
            "measure",
            "--prometheus",
            server,
            "--match",
            "job=vllm",
            "-o",
            "json",
            "--before",
            f"{NOW - 7200}..{NOW - 3600}",
            "--after",
            f"{NOW - 1800}..{NOW}",
        ]
    )
    said = json.loads(capsys.readouterr().out)
    assert (code, said["verdict"]) == (0, "helping")
    assert said["window"]["seconds"] == 1800
    assert said["baseline"]["verdict"] == "no_tier"
    for q, key in ((0.5, "ttft_p50_seconds"), (0.99, "ttft_p99_seconds")):
        text = (
            f"histogram_quantile({q}, sum by (le) (increase(vllm:time_to_first_token_seconds_bucket[1800s])))"
        )
        answer = float(prom.query(server, text, NOW)[0]["value"][1])
        assert said["meters"][key]["value"] == pytest.approx(answer, rel=1e-9)
    tokens = float(prom.query(server, "sum(increase(vllm:prompt_tokens_total[1800s]))", NOW)[0]["value"][1])
    assert said["meters"]["prompt_tokens"] == pytest.approx(tokens)


@pytest.mark.parametrize(
    "when",
    [
        ["--changed-at", datetime.fromtimestamp(NOW - 2700, UTC).isoformat()],
        ["--changed-at", f"{NOW - 2700:.0f}"],
        ["--changed-at", "45m"],
        ["--before", "2h..1h", "--after", "30m..now"],
    ],
    ids=["ISO 8601", "Unix seconds", "ago", "ranges"],
)
def test_around_a_change(server: str, capsys: pytest.CaptureFixture[str], when: list[str]) -> None:
    matcher = '{job=~"vl.*",model_name!="other"}'
    # The history ends at NOW, and other tests may have run since.
    since = time.time() - NOW
    for minutes in (30, 45):
        when = [word.replace(f"{minutes}m", f"{minutes * 60 + since:.0f}s") for word in when]
    code = main(["measure", "--prometheus", server, "--match", matcher, "-o", "json", *when])
    said = json.loads(capsys.readouterr().out)
    assert (code, said["verdict"], said["baseline"]["verdict"]) == (0, "helping", "no_tier")
    assert said["meters"]["external_hit_tokens"] > 100_000


def test_unknown_job(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", "--prometheus", server, "--match", "job=nobody"]) == 2
    assert "--match" in capsys.readouterr().err
