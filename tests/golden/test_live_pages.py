"""Pages that a real vLLM 0.32 (CPU build) served around each situation of the live tests, and their verdicts."""

import json
from pathlib import Path

import pytest

from warmset.cli.main import main

LIVE = Path(__file__).parent / "live"


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("on-random", "no_reuse", "no_hits"),
        ("on-overflow", "thrashing", "stores_without_loads"),
        ("on-local", "not_needed", "device_serves"),
        ("small-chat", "tier_too_small", "stored_again"),
        # The OffloadingConnector hashes blocks all the same and supplies every hit.
        ("no_prefix_cache-chat", "helping", "prefill_saved"),
        # The SimpleCPUOffloadConnector has disabled itself; it is asked and never answers.
        ("no_prefix_cache_simple-chat", "inert", "prefix_caching_off"),
    ],
)
def test_verdict(name: str, verdict: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    pages = (str(LIVE / f"{name}.{moment}.prom.gz") for moment in ("start", "end"))
    assert main(["measure", *pages, "-o", "json", "--quiet"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["reason"]) == (verdict, reason), said["summary"]
