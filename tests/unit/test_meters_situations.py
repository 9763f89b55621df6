"""Situations of counters that look alike and are not, on pages written here."""

from collections.abc import Mapping

import pytest

from warmset.meters import judge, meters, scrape, window
from warmset.meters.baseline import of
from warmset.meters.log import read_log
from warmset.meters.meters import Meters
from warmset.servers import engine

TTFT = "vllm:time_to_first_token_seconds"
PREFILL = "vllm:request_prefill_time_seconds"
BOUNDS = ("0.1", "0.25", "0.5", "1.0", "+Inf")


def page(counters: Mapping[str, float], seconds: float = 0.3, requests: int = 400, info: str = "") -> str:
    """A page whose requests all took `seconds`; a name may carry labels."""
    lines = []
    for name, value in counters.items():
        bare, _, labels = name.rstrip("}").partition("{")
        lines.append(f'{bare}{{engine="0",model_name="m",{labels}}} {value}')
    for name in (TTFT, PREFILL):
        for bound in BOUNDS:
            count = requests if float(bound) >= seconds else 0
            lines.append(f'{name}_bucket{{engine="0",model_name="m",le="{bound}"}} {count}')
        lines.append(f'{name}_count{{engine="0",model_name="m"}} {requests}')
        lines.append(f'{name}_sum{{engine="0",model_name="m"}} {requests * seconds}')
    if info:
        lines.append(f'vllm:cache_config_info{{engine="0",model_name="m",{info}}} 1')
    return "\n".join(lines) + "\n"


def native(
    prompt: float,
    device: float,
    external: float,
    stored_bytes: float,
    *,
    seconds: float = 0.3,
    load_seconds: float = 1.0,
    pinned: float = 0.0,
) -> str:
    """What the OffloadingConnector of 0.32 exports; a token takes 1,000 bytes."""
    counters = {
        "vllm:prompt_tokens_total": prompt,
        "vllm:prefix_cache_queries_total": prompt,
        "vllm:prefix_cache_hits_total": device,
        "vllm:external_prefix_cache_queries_total": prompt - device,
        "vllm:external_prefix_cache_hits_total": external,
        "vllm:kv_offload_store_bytes_total": stored_bytes,
        "vllm:kv_offload_load_bytes_total": external * 1000,
        "vllm:kv_offload_load_time_total": load_seconds,
        "vllm:kv_offload_cpu_cache_usage_perc": pinned,
    }
    return page(counters, seconds, info='block_size="16",num_gpu_blocks="10000",enable_prefix_caching="True"')


def measured(text: str, version: str = "vllm@0.32", tier_bytes: float | None = None) -> Meters:
    return meters(window(None, scrape(text)), engine(version), tier_bytes=tier_bytes)


@pytest.mark.parametrize("pinned", [0.0, 1.0])
def test_the_usage_gauge_of_the_tier_decides_nothing(pinned: float) -> None:
    """It shows blocks pinned by transfers in flight, not occupancy."""
    helping = judge(measured(native(4e6, 1e6, 1e6, 2e9, pinned=pinned)))
    assert helping.name == "helping"
    assert judge(measured(native(4e6, 1e6, 0, 3e9, pinned=pinned))).name == "thrashing"


def test_little_paid_is_a_gain_where_the_fixed_cost_of_a_request_is_unknown() -> None:
    """Requests that all take the same time leave no lower estimate worth the name."""
    found = judge(measured(native(4e6, 1e6, 1e6, 2e9, load_seconds=10)))
    assert (found.name, found.reason, found.confidence) == ("helping", "paid_little", "low")
    assert judge(measured(native(4e6, 1e6, 1e6, 2e9, load_seconds=30))).name == "mixed"
    assert judge(measured(native(4e6, 1e6, 1e6, 2e9, load_seconds=500))).name == "hurting"


def test_a_server_that_ran_slower_for_whatever_reason() -> None:
    """TTFT is worse, the loads cost nothing: the report must not lay it on the tier with confidence."""
    base = of(measured(native(4e6, 1e6, 0, 0, load_seconds=0, seconds=0.2)), {})
    found = judge(measured(native(4e6, 1e6, 0.5e6, 2e9, seconds=0.9)), base)
    assert (found.name, found.reason, found.confidence) == ("hurting", "meter_worsened", "low")
    assert "a computed token took" in found.summary
    assert "Measure again" in found.next_steps[0].text


def test_a_tier_that_lost_nothing_does_not_thrash() -> None:
    """Stores keep pace and nothing is loaded back; whether that is thrashing depends on what the tier holds."""
    text = native(4e6, 0.4e6, 0, 3.6e9)
    assert judge(measured(text, tier_bytes=2e9)).name == "thrashing"
    kept = judge(measured(text, tier_bytes=4e9))
    assert (kept.name, kept.reason) == ("not_needed", "tier_keeps_all")


def test_retried_lookups_against_what_the_tier_was_asked_for() -> None:
    """From 0.14 on the tier is asked for what the device did not have, once; before, for the whole prompt."""
    counters = {
        "vllm:prompt_tokens_total": 1e6,
        "vllm:prefix_cache_queries_total": 3e6,
        "vllm:prefix_cache_hits_total": 0.9e6,
        "vllm:external_prefix_cache_queries_total": 0.8e6,
        "vllm:external_prefix_cache_hits_total": 0.4e6,
    }
    assert measured(page(counters), "vllm@0.15").device_hit_tokens == 0.2e6
    assert measured(page(counters), "vllm@0.13").device_hit_tokens == 0.3e6
    counters["vllm:external_prefix_cache_queries_total"] = 2.4e6
    assert measured(page(counters), "vllm@0.15").device_hit_tokens == 0.3e6


def test_hicache_that_stores_nothing() -> None:
    """SGLang's counter by source shows a source only once it has supplied something."""
    rows = {
        "sglang:prompt_tokens_total": 1e6,
        'sglang:cached_tokens_total{cache_source="device"}': 2e5,
        "sglang:hicache_host_total_tokens": 5e6,
        "sglang:hicache_backup_tokens_total": 0,
    }
    text = page(rows).replace("vllm:", "sglang:")
    found = measured(text, "sglang@0.5.23")
    assert found.external_hit_tokens == 0
    assert judge(found).name == "inert"
    without = "".join(line for line in text.splitlines(True) if "hicache" not in line)
    assert judge(measured(without, "sglang@0.5.23")).name == "no_tier"


def test_the_simple_connector_says_in_the_log_that_it_is_off() -> None:
    """The line of vLLM 0.32 under `--no-enable-prefix-caching`."""
    line = (
        "WARNING 11-29 19:50:10 [simple_cpu_offload_connector.py:131] Detected prefix caching disabled, disabling "
        "CPU offload since it requires prefix caching.\n"
    )
    assert read_log([line]).faults == ("simple_offload_without_prefix_caching",)
