"""Public traces read to the counts and ceilings that others found in them."""

from pathlib import Path

import pytest

from warmset.traces import load
from warmset.traces.info import info

# file, block tokens, requests, accesses, unique blocks, ceiling over block tokens
PUBLIC = [
    ("mooncake/conversation_trace", 512, 12_031, 288_500, 182_790, 0.3736),
    ("mooncake/synthetic_trace", 512, 3_993, 121_877, 43_924, 0.6512),
    ("agent/flat_40sess_c8_bs64", 64, 2_084, 3_972_322, 137_326, 0.9654),
    ("ragpulse/ragpulse_chained", 512, 7_106, 71_583, 58_727, 0.3153),
    ("sharegpt/sharegpt_bs16", 16, 307, 19_307, 5_390, 0.7208),
    ("tau/tau_airline_c8_bs16", 16, 2_454, 514_631, 38_801, 0.9246),
]


@pytest.mark.parametrize(("name", "block", "requests", "accesses", "unique", "ceiling"), PUBLIC)
def test_counts_and_ceiling(
    shared: Path, name: str, block: int, requests: int, accesses: int, unique: int, ceiling: float
) -> None:
    trace = load(shared / "traces" / f"{name}.jsonl.gz")
    assert (trace.block_tokens, trace.requests, trace.accesses, trace.unique_blocks) == (
        block,
        requests,
        accesses,
        unique,
    )
    found = info(trace).ceiling_hit_ratio
    assert found is not None
    assert round(found, 4) == ceiling


def test_block_weighted_ceiling_of_the_conversation_trace(shared: Path) -> None:
    trace = load(f"mooncake:{shared}/traces/mooncake/conversation_trace.jsonl.gz", block_tokens=512)
    assert round(1 - trace.unique_blocks / trace.accesses, 3) == 0.366
    assert trace.arrival_seconds[-1] == 3536.999


def test_all_tokens_of_the_conversation_trace_are_covered(shared: Path) -> None:
    trace = load(shared / "traces/mooncake/conversation_trace.jsonl.gz")
    facts = info(trace)
    assert facts.block_tokens_total == facts.prompt_tokens == int(trace.input_tokens.sum())


def test_reading_and_the_curve_take_less_than_twelve_bytes_per_access(shared: Path) -> None:
    """At the peak, the file's text and all copies on the way included."""
    import tracemalloc

    from warmset.curves import lru_curve

    path = f"mooncake:{shared / 'traces/agent/flat_40sess_c8_bs64.jsonl.gz'}"
    lru_curve(load(path))  # what is imported and compiled once is not the trace's
    tracemalloc.start()
    try:
        trace = load(path)
        lru_curve(trace)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes / trace.accesses < 12
