"""The curve report in a real browser: nothing leaves the page, nothing fails, the figures are those of the JSON."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from warmset.cli.main import main

pytestmark = pytest.mark.e2e

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--disable-domain-reliability", "--disable-features=OptimizationHints,MediaRouter",
)  # fmt: skip
# What a person does: hover, a linear axis, zoom in, the whole range again.
HANDS = """
<script>
const chart = document.getElementById("chart"), box = chart.getBoundingClientRect();
const mouse = (type, share) => chart.dispatchEvent(new PointerEvent(type, { pointerId: 1, bubbles: true,
  clientX: box.left + share * box.width, clientY: box.top + box.height / 2 }));
const seen = {};
chart.setPointerCapture = () => {};
const rings = () => [...chart.querySelectorAll("circle.point")].map((c) => +c.getAttribute("cx"));
const note = (name) => { seen[name] = { x: rings(),
  text: document.getElementById("readout").textContent, hover: chart.querySelectorAll(".hover-dot").length }; };
note("start");
mouse("pointermove", 0.61); note("hovered");
document.getElementById("linear").click(); note("linear");
document.getElementById("log").click();
mouse("pointerdown", 0.5); mouse("pointermove", 0.8); mouse("pointerup", 0.8); note("zoomed");
chart.dispatchEvent(new WheelEvent("wheel", { deltaY: -1, bubbles: true, cancelable: true,
  clientX: box.left + box.width / 2 })); note("closer");
document.getElementById("reset").click(); note("reset");
document.body.dataset.seen = JSON.stringify(seen);
</script>
"""


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, dict]:  # type: ignore[type-arg]
    trace = tmp_path / "trace <&\"'.jsonl"
    rows = []
    for turn in range(1, 13):
        for session in range(9):
            ids = [0, *(1000 * (session + 1) + i for i in range(5 * turn))]
            rows.append(
                {"timestamp": len(rows), "input_length": 16 * len(ids), "output_length": 9, "hash_ids": ids}
            )
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = tmp_path / "report.html"
    code = main(
        ["curve", f"mooncake:{trace}", "--block-tokens", "16", "--time-unit", "ms", "--model", "llama-3.1-8b",
         "--device", "64MiB", "--tier", "exclusive", "--prefill-tps", "9000", "--html", str(page), "-o", "json"]
    )  # fmt: skip
    assert code == 0
    return page, json.loads(capsys.readouterr().out)


def dump(page: Path, tmp_path: Path) -> tuple[str, str, list[str]]:
    """The page's DOM, what the browser complained of, and the addresses it asked for."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here")
    log = tmp_path / "net.json"
    ran = subprocess.run(
        [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr",
         f"--log-net-log={log}", "--virtual-time-budget=3000", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=90, check=True,
    )  # fmt: skip
    complaints = "\n".join(line for line in ran.stderr.splitlines() if "CONSOLE" in line)
    # The browser's own business has no origin; what a page asks for has its page's.
    lines = [line for line in log.read_text().splitlines() if '"initiator":' in line and '"url":' in line]
    asked = [re.search(r'"initiator":"([^"]*)".*"url":"([^"]*)"', line) for line in lines]
    addresses = [match[2] for match in asked if match and match[1] != "not an origin"]
    return ran.stdout, complaints, addresses


def test_the_report_keeps_to_itself_and_shows_the_json(
    report: tuple[Path, dict],  # type: ignore[type-arg]
    tmp_path: Path,
) -> None:
    page, found = report
    dom, complaints, addresses = dump(page, tmp_path)
    assert complaints == ""
    assert addresses == []
    shown = re.findall(r'data-capacity-blocks="(\d+)" data-hit-ratio="([^"]+)" data-hit-tokens="(\d+)"', dom)
    expected = [(p["capacity_blocks"], p["hit_ratio"], p["hit_tokens"]) for p in found["points"]]
    assert [(int(c), float(r), int(t)) for c, r, t in shown] == expected
    assert len(expected) > 5


def test_hover_zoom_and_axes(report: tuple[Path, dict], tmp_path: Path) -> None:  # type: ignore[type-arg]
    page, _ = report
    touched = tmp_path / "touched.html"
    touched.write_text(page.read_text().replace("</body>", HANDS + "</body>"))
    dom, complaints, _ = dump(touched, tmp_path)
    assert complaints == ""
    match = re.search(r'data-seen="([^"]*)"', dom)
    assert match is not None
    seen = json.loads(match[1].replace("&quot;", '"'))
    assert re.search(r"blocks \([\d.]+ MiB\) → [\d.]+ %", seen["hovered"]["text"])
    assert seen["hovered"]["hover"] == 1
    assert seen["start"]["x"] == sorted(seen["start"]["x"])
    for step in ("linear", "zoomed", "closer"):
        assert seen[step]["x"] != seen["start"]["x"]
    spread = {step: seen[step]["x"][-1] - seen[step]["x"][0] for step in seen}
    assert spread["closer"] > spread["zoomed"] > spread["start"]
    assert seen["reset"]["x"] == seen["start"]["x"]


def test_a_request_would_have_been_seen(tmp_path: Path) -> None:
    page = tmp_path / "leak.html"
    page.write_text('<img src="http://127.0.0.1:9/pixel.png"><script>console.error("seen")</script>')
    _, complaints, addresses = dump(page, tmp_path)
    assert addresses == ["http://127.0.0.1:9/pixel.png"]
    assert "seen" in complaints
