"""A handful of counters and nothing else, as people paste them: what is missing must not decide."""

import pytest

from warmset.meters import judge, meters, scrape, window
from warmset.meters.meters import Meters

V, S = "vllm:", "sglang:"
STORED, LOADED = (
    f'{V}kv_offload_total_bytes_total{{transfer_type="{way}"}}' for way in ("GPU_to_CPU", "CPU_to_GPU")
)
POOL = f'{V}cache_config_info{{kv_cache_size_tokens="5289827"}}'
BIG_TIER = 500 * 2**30


def told(rows: dict[str, float], tier_bytes: float | None = None) -> tuple[str, Meters]:
    lines = []
    for name, value in rows.items():
        bare, _, own = name.rstrip("}").partition("{")
        lines.append(f'{bare}{{engine="0",model_name="m"{"," + own if own else ""}}} {value}')
    m = meters(window(None, scrape("\n".join(lines) + "\n")), tier_bytes=tier_bytes)
    return judge(m).name, m


@pytest.mark.parametrize("queries", [1000, 400], ids=["all prompt tokens", "what the device lacked"])
def test_local_and_external_hits(queries: float) -> None:
    name, m = told(
        {
            f"{V}prefix_cache_queries_total": 1000,
            f"{V}prefix_cache_hits_total": 600,
            f"{V}external_prefix_cache_queries_total": queries,
            f"{V}external_prefix_cache_hits_total": 200,
        }
    )
    ratio = m.hit_ratio
    assert name == "helping"
    assert [e.value for e in (ratio.device, ratio.external, ratio.combined) if e] == [0.6, 0.2, 0.8]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({f"{V}external_prefix_cache_hits_total": 5e5}, "helping"),
        ({STORED: 4e10, LOADED: 2.55e9, f"{V}external_prefix_cache_hits_total": 20_800}, "helping"),
        ({STORED: 4e10, LOADED: 0, f"{V}spec_decode_num_draft_tokens_total": 5000}, "inert"),
        ({STORED: 4.1e10, LOADED: 0, f'{V}cache_config_info{{cache_dtype="int4_other"}}': 1}, "inert"),
        ({f"{V}kv_offload_store_bytes_total": 1.2e12, f"{V}kv_offload_load_bytes_total": 1e6}, "thrashing"),
        ({f"{V}prefix_cache_queries_total": 32, f"{V}gpu_prefix_cache_hits_total": 0}, "no_tier"),
        ({STORED: 0, LOADED: 0}, "undecided"),
        ({"lmcache:num_lookup_hits_total": 1.2e6, "lmcache:num_hit_tokens_total": 0}, "undecided"),
        (
            {f"{S}cache_hit_rate": 0, f"{S}cached_tokens_total": 5e5, f"{S}prompt_tokens_total": 1e6},
            "undecided",
        ),
    ],
)
def test_verdicts(rows: dict[str, float], expected: str) -> None:
    assert told(rows)[0] == expected


@pytest.mark.parametrize(
    "device", [{}, {f"{V}prefix_cache_queries_total": 5e6, f"{V}prefix_cache_hits_total": 3e6}]
)
def test_a_tier_that_is_told_to_hold_less_than_the_device(device: dict[str, float]) -> None:
    rows = {
        f"{V}kv_offload_store_bytes_total": 2.8e11,
        f"{V}kv_offload_load_bytes_total": 0,
        f"{V}external_prefix_cache_queries_total": 2e6,
        f"{V}external_prefix_cache_hits_total": 0,
        POOL: 1,
    }
    assert told(rows | device, BIG_TIER)[0] == "tier_too_small"


def test_sglang_by_tokens_as_they_are_processed() -> None:
    """80 %, whatever a gauge of recent batches says (sglang pull request 31412)."""
    name, m = told(
        {
            f'{S}realtime_tokens_total{{mode="prefill_cache"}}': 8e6,
            f'{S}realtime_tokens_total{{mode="prefill_compute"}}': 2e6,
            f"{S}cache_hit_rate": 0.31,
        }
    )
    assert name == "no_tier"
    assert m.hit_ratio.device is not None
    assert m.hit_ratio.device.value == 0.8


def test_tokens_by_tier_of_sglang() -> None:
    name, m = told(
        {
            f"{S}prompt_tokens_total": 54_657_831,
            f'{S}cached_tokens_total{{cache_source="device"}}': 18_916_096,
            f'{S}cached_tokens_total{{cache_source="host"}}': 691_904,
            f'{S}cached_tokens_total{{cache_source="storage"}}': 1_531_520,
        }
    )
    assert (name, m.external_hit_tokens) == ("helping", 2_223_424)
