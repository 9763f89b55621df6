"""Curves on the public traces, against figures that others computed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from small_trace import small_trace
from warmset.curves.chunks import chunked_curve, in_chunks
from warmset.curves.exact import lru_curve
from warmset.curves.policies import simulate
from warmset.curves.policies.pinned import pinned_hit_tokens
from warmset.curves.sampled import sampled_curve
from warmset.curves.sizing import knee, size_for
from warmset.curves.tiers import two_tiers
from warmset.errors import InputError
from warmset.traces import Trace, load

FILES = {
    "conversation": ("mooncake:traces/mooncake/conversation_trace.jsonl.gz", 512),
    "synthetic": ("mooncake:traces/mooncake/synthetic_trace.jsonl.gz", 512),
    "agent": ("mooncake:traces/agent/flat_40sess_c8_bs64.jsonl.gz", 64),
    "ragpulse": ("mooncake:traces/ragpulse/ragpulse_chained.jsonl.gz", 512),
    "tau": ("mooncake:traces/tau/tau_airline_c8_bs16.jsonl.gz", 16),
    "sharegpt": ("mooncake:traces/sharegpt/sharegpt_bs16.jsonl.gz", 16),
}
# trace, order → capacity → hit ratio; None is infinite.
RATIOS: dict[tuple[str, str], dict[int | None, float]] = {
    ("conversation", "tail-first"): {
        1000: 0.0454, 10_000: 0.2157, 30_000: 0.3322, 50_000: 0.3615, 100_000: 0.3708, None: 0.3736
    },
    ("conversation", "head-first"): {
        1000: 0.0454, 10_000: 0.2153, 30_000: 0.3321, 50_000: 0.3615, 100_000: 0.3708, None: 0.3736
    },
    ("synthetic", "tail-first"): {
        1000: 0.0857, 10_000: 0.4318, 30_000: 0.6356, 50_000: 0.6512, 100_000: 0.6512, None: 0.6512
    },
    ("synthetic", "head-first"): {
        1000: 0.0840, 10_000: 0.4313, 30_000: 0.6356, 50_000: 0.6512, 100_000: 0.6512, None: 0.6512
    },
    ("agent", "tail-first"): {1000: 0.1675, 10_000: 0.8831, 50_000: 0.9654, None: 0.9654},
    ("agent", "head-first"): {1000: 0.0265, 10_000: 0.8234, 50_000: 0.9654, None: 0.9654},
    ("ragpulse", "tail-first"): {1000: 0.3149, 10_000: 0.3153, 50_000: 0.3153, None: 0.3153},
    ("tau", "tail-first"): {
        100: 0.3869, 500: 0.4398, 1000: 0.6770, 2000: 0.9231, 10_000: 0.9246, None: 0.9246
    },
    ("tau", "head-first"): {
        100: 0.0795, 500: 0.3986, 1000: 0.6134, 2000: 0.9187, 10_000: 0.9246, None: 0.9246
    },
    ("sharegpt", "tail-first"): {500: 0.0346, 1000: 0.0395, 2000: 0.1535, 4000: 0.6230, None: 0.7208},
}  # fmt: skip
CAPACITIES = (100, 1000, 5859, 10_000, 30_000, 50_000, 100_000)
# From an independent simulator; the first half of the requests only warms the cache.
HIT_TOKENS = {
    ("conversation", "fifo"): (
        2_564_997, 3_105_848, 8_712_833, 12_434_391, 20_662_642, 23_651_771, 25_550_472
    ),
    ("conversation", "lru"): (
        3_080_581, 3_173_822, 9_286_131, 14_910_149, 23_347_784, 25_582_964, 26_635_636
    ),
    ("conversation", "optimal"): (
        4_995_040, 13_381_287, 25_548_279, 27_038_068, 27_038_068, 27_038_068, 27_038_068
    ),
    ("synthetic", "fifo"): (250_368, 4_447_597, 16_147_483, 20_676_705, 28_753_810),
    ("synthetic", "lru"): (366_592, 4_755_642, 16_553_342, 22_061_940, 30_623_566),
    ("synthetic", "optimal"): (3_527_157, 13_311_599, 26_307_629, 30_189_421, 31_535_563),
}  # fmt: skip
BLOCK_RATIOS = {
    "conversation": ((0.052, 0.195, 0.278, 0.353, 0.363), 0.366),
    "synthetic": ((0.034, 0.155, 0.260, 0.443, 0.589), 0.640),
}
_LOADED: dict[str, Trace] = {}


@pytest.fixture
def trace_of(shared: Path):  # type: ignore[no-untyped-def]
    def get(name: str) -> Trace:
        if name not in _LOADED:
            path, block_tokens = FILES[name]
            kind, _, file = path.partition(":")
            _LOADED[name] = load(f"{kind}:{shared / file}", block_tokens=block_tokens)
        return _LOADED[name]

    return get


@pytest.mark.parametrize(("name", "order"), RATIOS)
def test_hit_ratios_of_the_public_traces(trace_of, name: str, order: str) -> None:  # type: ignore[no-untyped-def]
    curve = lru_curve(trace_of(name), order=order)  # type: ignore[arg-type]
    found = {
        c: round(curve.ceiling_hit_ratio if c is None else curve.hit_ratio_at(c), 4)
        for c in RATIOS[name, order]
    }
    assert found == RATIOS[name, order]


@pytest.mark.parametrize(("name", "policy"), HIT_TOKENS)
def test_hit_tokens_of_an_independent_simulator(trace_of, name: str, policy: str) -> None:  # type: ignore[no-untyped-def]
    expected = HIT_TOKENS[name, policy]
    trace = trace_of(name)
    assert tuple(simulate(trace, policy, CAPACITIES[: len(expected)], warmup_ratio=0.5)) == expected
    assert (
        lru_curve(trace, warmup_ratio=0.5).total_tokens
        == {"conversation": 67_915_607, "synthetic": 36_552_394}[name]
    )


@pytest.mark.parametrize("name", BLOCK_RATIOS)
def test_block_weighted_head_first_as_published(trace_of, name: str) -> None:  # type: ignore[no-untyped-def]
    trace = trace_of(name)
    curve = lru_curve(trace, order="head-first", weight="blocks")
    expected, ceiling = BLOCK_RATIOS[name]
    shares = (0.01, 0.05, 0.10, 0.25, 0.50)
    assert tuple(round(curve.hit_ratio_at(int(trace.unique_blocks * s)), 3) for s in shares) == expected
    assert round(curve.ceiling_hit_ratio, 3) == ceiling


def test_ratios_over_the_whole_prompt_are_lower(trace_of) -> None:  # type: ignore[no-untyped-def]
    tau, sharegpt = lru_curve(trace_of("tau")), lru_curve(trace_of("sharegpt"))
    assert round(tau.hit_tokens_at(100) / tau.prompt_tokens, 4) == 0.3861
    assert round(sharegpt.ceiling_hit_tokens / sharegpt.prompt_tokens, 4) == 0.7156


def test_a_sample_of_one_percent_is_within_a_point_on_the_agent_trace(trace_of) -> None:  # type: ignore[no-untyped-def]
    trace = trace_of("agent")
    exact = lru_curve(trace)
    capacities = np.unique(np.geomspace(1000, trace.unique_blocks, 300).astype(int)).tolist()
    for seed in range(10):
        sampled = sampled_curve(trace, ratio=0.01, seed=seed)
        worst = max(abs(sampled.hit_ratio_at(c) - exact.hit_ratio_at(c)) for c in capacities)
        assert sampled.sampling is not None
        assert worst <= 0.01
        assert worst <= sampled.sampling.error_ratio
        assert sampled.total_tokens == exact.total_tokens


@pytest.mark.parametrize("name", ["conversation", "synthetic", "ragpulse", "tau", "sharegpt"])
def test_the_stated_bound_holds_on_other_traffic(trace_of, name: str) -> None:  # type: ignore[no-untyped-def]
    trace = trace_of(name)
    exact = lru_curve(trace)
    capacities = np.unique(np.geomspace(100, trace.unique_blocks, 200).astype(int)).tolist()
    for seed in range(5):
        sampled = sampled_curve(trace, ratio=0.1, seed=seed)
        assert sampled.sampling is not None
        assert sampled.sampling.error_from_blocks == 100
        worst = max(abs(sampled.hit_ratio_at(c) - exact.hit_ratio_at(c)) for c in capacities)
        assert worst <= sampled.sampling.error_ratio < 0.2


def test_the_stated_bound_knows_that_a_sample_came_out_small(trace_of) -> None:  # type: ignore[no-untyped-def]
    # With these seeds the groups agree with each other, and follow half as many blocks as they should.
    trace = trace_of("ragpulse")
    exact = lru_curve(trace)
    for seed in (5, 13, 19, 21):
        sampled = sampled_curve(trace, ratio=0.05, seed=seed)
        assert sampled.sampling is not None
        worst = max(abs(sampled.hit_ratio_at(c) - exact.hit_ratio_at(c)) for c in range(200, 2000))
        assert worst <= sampled.sampling.error_ratio


def test_a_host_tier_of_the_devices_size_adds_nothing_unless_exclusive(trace_of) -> None:  # type: ignore[no-untyped-def]
    curve = lru_curve(trace_of("tau"))
    assert two_tiers(curve, 1000, 1000).host_hit_tokens == 0
    assert two_tiers(curve, 1000, 2000).hit_tokens == curve.hit_tokens_at(2000)
    exclusive = two_tiers(curve, 1000, 1000, inclusion="exclusive")
    assert exclusive.hit_tokens == curve.hit_tokens_at(2000)
    assert exclusive.device_hit_tokens == curve.hit_tokens_at(1000)


def test_policies_lie_under_the_clairvoyant_bound(trace_of) -> None:  # type: ignore[no-untyped-def]
    trace = trace_of("sharegpt")
    capacities = (300, 1000, 3000)
    best = simulate(trace, "optimal", capacities)
    for policy in ("lru", "arc", "fifo", "lfu"):
        for hits, bound in zip(simulate(trace, policy, capacities), best, strict=True):
            assert 0 < hits <= bound


def test_size_within_points_is_the_smallest(trace_of) -> None:  # type: ignore[no-untyped-def]
    curve = lru_curve(trace_of("conversation"))
    size = size_for(curve, within_points=1.0)
    assert curve.ceiling_hit_ratio - size.hit_ratio <= 0.01
    assert curve.ceiling_hit_ratio - curve.hit_ratio_at(size.capacity_blocks - 1) > 0.01
    assert 0 < knee(curve).capacity_blocks < size.capacity_blocks
    assert size_for(curve, within_points=0).capacity_blocks == curve.ceiling_capacity_blocks
    assert size_for(curve, within_points=100).capacity_blocks == 0


def test_chunks_lose_tails(trace_of) -> None:  # type: ignore[no-untyped-def]
    tau = trace_of("tau")
    chunked = in_chunks(tau, 256)
    whole = tau.input_tokens // 256 * 256
    assert lru_curve(chunked).total_tokens == whole.sum()
    assert lru_curve(chunked).ceiling_hit_tokens < lru_curve(tau).ceiling_hit_tokens
    assert lru_curve(in_chunks(tau, 16)).ceiling_hit_ratio == pytest.approx(0.9246, abs=0.001)
    curve = chunked_curve(tau, 256)
    assert (curve.total_tokens, curve.block_tokens) == (lru_curve(tau).total_tokens, 16)
    for chunks in (1, 50, 200):
        assert curve.hit_tokens_at(16 * chunks + 15) == lru_curve(chunked).hit_tokens_at(chunks)
    with pytest.raises(InputError, match="`100`"):
        in_chunks(tau, 100)


def test_pinned_by_one_request_at_a_time_is_plain_lru(trace_of) -> None:  # type: ignore[no-untyped-def]
    trace = trace_of("tau")
    longest = int(np.diff(trace.offsets).max())
    silent = replace(trace, output_tokens=np.zeros_like(trace.output_tokens))
    curve = lru_curve(trace)
    for capacity in (longest, 1000, 2000):
        assert pinned_hit_tokens(silent, capacity, 1) == curve.hit_tokens_at(capacity)
    # Others that run hold blocks which are then missing for reuse.
    assert pinned_hit_tokens(trace, 1000, 8) != curve.hit_tokens_at(1000)
    assert pinned_hit_tokens(trace, 10**6, 64) == curve.ceiling_hit_tokens


def test_the_last_request_of_an_unchained_trace_is_refused() -> None:
    trace = small_trace([[0, 1, 2], [0, 2]])
    with pytest.raises(InputError, match="request `1`"):
        lru_curve(trace)
    with pytest.raises(InputError, match="request `1`"):
        lru_curve(small_trace([[0, 1], [1, 0]]))
    with pytest.raises(InputError, match="request `0`"):
        lru_curve(small_trace([[0, 0]]))


def test_figures_that_mean_nothing_are_refused() -> None:
    trace = small_trace([[0, 1], [0, 1, 2]])
    curve = lru_curve(trace)
    for capacity in (-1, 2**60):
        with pytest.raises(InputError, match=f"`{capacity}`"):
            curve.hit_tokens_at(capacity)
    with pytest.raises(InputError, match="`0`"):
        simulate(trace, "arc", [0])
    for warmup in (-0.1, 1.0, float("nan")):
        with pytest.raises(InputError):
            lru_curve(trace, warmup_ratio=warmup)
    with pytest.raises(InputError, match="`arcc`"):
        simulate(trace, "arcc", [1])
    with pytest.raises(InputError, match="no block accesses"):
        lru_curve(small_trace([[]]))
