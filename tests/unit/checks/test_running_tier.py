"""The rule `running-tier`: what a running server's own page says about its tier."""

from pathlib import Path

import pytest

from warmset.checks import collect, run
from warmset.checks.findings import Finding
from warmset.checks.running import read_page
from warmset.meters import meters, scrape, window

INFO = 'vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",%s} 1.0\n'
COMMON = """# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 4.0e6
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 4.0e6
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1.0e6
"""
TIER = """# TYPE vllm:external_prefix_cache_queries_total counter
vllm:external_prefix_cache_queries_total{engine="0",model_name="m"} 3.0e6
# TYPE vllm:external_prefix_cache_hits_total counter
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} %s
# TYPE vllm:kv_offload_store_bytes_total counter
vllm:kv_offload_store_bytes_total{engine="0",model_name="m"} 2.8e11
# TYPE vllm:kv_offload_load_bytes_total counter
vllm:kv_offload_load_bytes_total{engine="0",model_name="m"} %s
"""


def _found(page: str) -> list[Finding]:
    result = run(collect((), commands=[read_page(page, "http://h/metrics")]))
    return [f for f in result.findings if f.rule == "running-tier"]


def test_configured_and_absent() -> None:
    found = _found(INFO % 'kv_offloading_size="40.0",num_gpu_blocks="1000"' + COMMON)
    assert any(f.severity == "error" and "no counters of a tier" in f.message for f in found)


def test_stores_and_never_loads() -> None:
    found = _found(INFO % 'kv_offloading_size="40.0",num_gpu_blocks="1000"' + COMMON + TIER % ("0.0", "0.0"))
    assert any(f.severity == "error" and "never loads" in f.message for f in found)


def test_pool_size() -> None:
    found = _found(INFO % 'num_gpu_blocks="1000"' + COMMON)
    assert any(f.severity == "note" and "16,000 tokens" in f.message for f in found)
    assert not any(f.severity == "error" for f in found)


def test_working_tier() -> None:
    found = _found(
        INFO % 'kv_offloading_size="40.0",num_gpu_blocks="1000"' + COMMON + TIER % ("1.5e6", "9.0e10")
    )
    assert not any(f.severity == "error" for f in found)


@pytest.mark.parametrize("page", ["light_big.end.prom", "vllm-0.32.0-tiering-fs.prom"])
def test_the_version_is_the_one_that_measure_reads(shared: Path, page: str) -> None:
    text = (shared / "metrics" / page).read_text()
    measured = meters(window(None, scrape(text))).engine
    (checked,) = run(collect((), commands=[read_page(text, "http://h/metrics")])).assumed
    assert checked.server == str(measured) == "vllm@0.32.0"
    assert checked.source == "the names of its metrics"


def test_a_page_that_fits_the_newest_version_names_none() -> None:
    (checked,) = run(collect((), commands=[read_page(COMMON, "http://h/metrics")])).assumed
    assert checked.source == "newest known"
