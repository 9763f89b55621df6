"""Reported access patterns: what the simulation must say about each, by the row's id."""

from collections.abc import Sequence

import numpy as np

from small_trace import small_trace
from warmset.curves import in_chunks, lru_curve, simulate, two_tiers
from warmset.traces import Trace


def _trace(requests: Sequence[Sequence[object]], block_tokens: int = 16, tokens: Sequence[int] = ()) -> Trace:
    """Requests as lists of block names; a block's identity is the whole prefix up to it."""
    ids: dict[tuple[int, object], int] = {}
    blocks = []
    for request in requests:
        parent, chain_of = -1, []
        for name in request:
            parent = ids.setdefault((parent, name), len(ids))
            chain_of.append(parent)
        blocks.append(chain_of)
    return small_trace(blocks, block_tokens, tokens)


def _share(trace: Trace, capacity: int) -> float:
    return lru_curve(trace).hit_tokens_at(capacity) / int(trace.input_tokens.sum())


def test_b7_storing_everything_thrashes_where_the_prefixes_alone_fit() -> None:
    """B7: 6 prefixes of 16K tokens fill 12 GiB; the one-shot suffixes push them out."""
    order = [i % 6 for i in range(48)]
    prefix = [[f"p{p}.{j}" for j in range(64)] for p in range(6)]
    everything = _trace([prefix[p] + [f"s{n}.{j}" for j in range(64)] for n, p in enumerate(order)], 256)
    prefixes = _trace([prefix[p] for p in order], 256)
    capacity = 6 * 64
    assert lru_curve(prefixes).hit_tokens_at(capacity) == 42 * 64 * 256
    assert lru_curve(everything).hit_tokens_at(capacity) < 0.5 * lru_curve(prefixes).hit_tokens_at(capacity)
    grouped = _trace([prefix[p] + [f"s{n}.{j}" for j in range(64)] for n, p in enumerate(sorted(order))], 256)
    assert lru_curve(grouped).hit_tokens_at(capacity) > lru_curve(everything).hit_tokens_at(capacity)


def test_d9_more_prefixes_than_prompts_never_hits() -> None:
    """D9: 24 prompts over 500 prefixes: nothing comes back, whatever the capacity."""
    rng = np.random.default_rng(0)
    chosen = rng.permutation(500)[:24]
    trace = _trace(
        [[f"p{p}.{j}" for j in range(31)] + [f"s{n}.{j}" for j in range(31)] for n, p in enumerate(chosen)]
    )
    assert lru_curve(trace).ceiling_hit_tokens == 0


def test_d10_the_device_answers_a_repeat() -> None:
    """D10: one document asked twice with a device pool that holds it: the tier adds nothing."""
    document = [f"d{j}" for j in range(14_808 // 16)]
    hits = two_tiers(lru_curve(_trace([document, document])), 200_000 // 16, 400_000 // 16)
    assert hits.device_hit_tokens == len(document) * 16
    assert hits.host_hit_tokens == 0


def test_g9_only_whole_prompt_chunks_come_back() -> None:
    """G9: a prompt of 290 tokens has one reusable chunk of 256; a chunk that mixes output never hits."""
    repeats = 5
    trace = in_chunks(_trace([[f"b{j}" for j in range(19)]] * repeats, 16, [290] * repeats), 256)
    assert lru_curve(trace).ceiling_hit_tokens == (repeats - 1) * 256


def test_g11_a_volatile_block_caps_the_hit_rate() -> None:
    """G11: 71k-token prompts that differ from token 40,324 on: 57 % at most, whatever the size."""
    same, rest = 40_324 // 4, (71_000 - 40_324) // 4
    trace = _trace(
        [[f"s{j}" for j in range(same)] + [f"v{n}.{j}" for j in range(rest)] for n in range(50)], 4
    )
    ceiling = lru_curve(trace).ceiling_hit_tokens / int(trace.input_tokens.sum())
    assert 0.55 < ceiling < 0.57


def test_g14_a_scan_pushes_out_the_hot_set_under_lru_and_not_under_arc() -> None:
    """G14: hot set twice, a longer scan, then the hot set again."""
    capacity = 32
    hot = [[f"h{i}"] for i in range(16)]
    scan = [[f"c{i}"] for i in range(40)]
    before = [*hot, *hot, *scan]
    for policy, expected in (("lru", 0), ("arc", 16)):
        with_probe, without = (
            simulate(t, policy, [capacity])[0] for t in (_trace([*before, *hot]), _trace(before))
        )
        assert with_probe - without == expected * 16


def test_g8_recency_of_the_host_tier() -> None:
    """G8: with hits of the device propagated, B is older than A and goes first."""
    trace = _trace([["A"], ["B"], ["A"], ["D"], ["A"]])
    assert lru_curve(trace).hit_tokens_at(2) == 2 * 16  # A survives D, because its hit refreshed it
    unseen = _trace([["A"], ["B"], ["D"], ["A"]])
    assert lru_curve(unseen).hit_tokens_at(2) == 0  # where the tier does not see the hit, A is gone


def test_j9_half_a_chunk_is_no_hit() -> None:
    """J9: chunks of 64 tokens, 48 of them shared: nothing to load."""
    first = ["a", "b", "c", "d"]
    second = ["a", "b", "c", "x"]
    trace = _trace([first, second])
    assert lru_curve(trace).ceiling_hit_tokens == 48
    assert lru_curve(in_chunks(trace, 64)).ceiling_hit_tokens == 0


def test_m8_upper_tiers_answer_a_repeat() -> None:
    """M8: A twice with device and host above the working set: the storage below is never read."""
    a = [f"a{j}" for j in range(100)]
    curve = lru_curve(_trace([a, a]))
    assert curve.hit_tokens_at(10_000) == curve.hit_tokens_at(200)


def test_m17_a_cyclic_scan_larger_than_the_tier_never_hits() -> None:
    """M17: 50 GB scanned twice in order through an LRU of 16 GB: exactly 0; 50 GB hold all of it."""
    scan = [[f"x{i}"] for i in range(500)]
    trace = _trace([*scan, *scan])
    assert _share(trace, 160) == 0
    assert _share(trace, 500) == 0.5
