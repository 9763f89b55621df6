"""Verdicts on real vLLM, each at two seeds: the lab makes the situation, `measure` must name it."""

import pytest

pytestmark = pytest.mark.e2e

SITUATIONS = {
    "helping": ("--workload", "chat", "--requests", 160),
    "no_reuse": ("--workload", "noreuse", "--requests", 60),
    "tier_too_small": ("--workload", "chat", "--tier-blocks", 100, "--requests", 120),
    "thrashing": ("--workload", "overflow", "--requests", 160),
    "not_needed": ("--workload", "chat", "--device-blocks", 400, "--tier-blocks", 900, "--requests", 24),
}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize("verdict", SITUATIONS)
def test_verdict(lab, verdict, seed):
    done = lab(*SITUATIONS[verdict], "--seed", seed)
    assert done.code == 0, done.error
    assert done.result["off"]["verdict"] == "no_tier"
    assert done.result["verdict"] == verdict, done.result["on"]["summary"]
