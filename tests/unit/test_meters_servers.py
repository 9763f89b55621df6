"""Situations by server and version, on whole pages: who counts what, and what a page without it means."""

from collections.abc import Callable
from typing import Any

import pytest

from warmset.errors import InputError
from warmset.meters import Verdict, Window, judge, meters, scrape, window
from warmset.meters.meters import Meters
from warmset.meters.prometheus import known_names
from warmset.meters.readings import identify
from warmset.servers import engine, inspected

M = 4e6
N = 400
INFO = 'block_size="16",num_gpu_blocks="10000",enable_prefix_caching="True",cache_dtype="auto"'
START = "process_start_time_seconds 1700000000.0\n"
Page = Callable[..., str]
ROLES = (
    "device_hit_tokens",
    "device_query_tokens",
    "external_hit_tokens",
    "load_bytes",
    "transfer_bytes",
    "ttft",
)


def native(prompt: float, device: float, external: float, stored: float, **more: float) -> dict[str, float]:
    """What the OffloadingConnector counts; a token takes 1,000 bytes."""
    return {
        "vllm:prompt_tokens_total": prompt,
        "vllm:prefix_cache_hits_total": device,
        "vllm:prefix_cache_queries_total": prompt,
        "vllm:external_prefix_cache_queries_total": prompt - device,
        "vllm:external_prefix_cache_hits_total": external,
        'vllm:prompt_tokens_by_source_total{source="local_compute"}': prompt - device - external,
        'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}': device,
        'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}': external,
        "vllm:kv_offload_store_bytes_total": stored * 1000,
        "vllm:kv_offload_load_bytes_total": external * 1000,
        "vllm:kv_offload_load_time_total": 1.0 if external else 0.0,
        **more,
    }


@pytest.fixture(scope="module")
def vllm(whole_page: Page) -> Page:
    """A page of `n` requests whose times spread around 0.3 s."""

    def write(
        version: str, values: dict[str, float], *, n: int = N, prompts: Any = None, **options: Any
    ) -> str:
        ttft = [0.3 * (0.3 + 1.4 * i / n) for i in range(n)]
        observed = {
            "time_to_first_token_seconds": ttft,
            "request_prefill_time_seconds": [0.9 * t for t in ttft],
            "request_queue_time_seconds": [0.1 * t for t in ttft],
            "request_prompt_tokens": prompts or [10_000] * n,
        }
        return whole_page(version, values, observed, **{"info": INFO, **options})

    return write


def since_start(text: str) -> Window:
    return window(None, scrape(text))


def told(text: str, version: str | None = None, **options: Any) -> tuple[Verdict, Meters]:
    m = meters(since_start(text), engine(version) if version else None, **options)
    return judge(m), m


# --- versions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [str(v) for v in inspected("vllm")])
def test_a_whole_page_tells_its_version(vllm: Page, version: str) -> None:
    """Not exactly: what it tells must count alike. Fewer families than that, and the newest that fits is meant."""
    offload = {m.name: 0.0 for m in engine(f"vllm@{version}").metrics() if _always_with_offload(m.name)}
    page = vllm(f"vllm@{version}", offload)
    # From a Prometheus server, only what is read is fetched.
    read = "".join(line for line in page.splitlines(True) if _family(line.partition("{")[0]) in known_names())
    own = engine(f"vllm@{version}")
    for text in (page, read):
        found = identify(since_start(text))
        for role in ROLES:
            expected, got = own.metric(role), found.metric(role)
            assert (expected.name if expected else None) == (got.name if got else None), (found.version, role)


def _family(name: str) -> str:
    for suffix in ("_bucket", "_count", "_sum"):
        name = name.removesuffix(suffix)
    return name


def _always_with_offload(name: str) -> bool:
    rest = name.removeprefix("vllm:kv_offload_")
    return (
        rest != name
        and not rest.startswith(("tiering", "stores_skipped", "config_info"))
        and not rest.endswith(("size", "seconds"))
    )


def test_blocks_are_told_from_tokens_where_the_names_are_the_same(vllm: Page) -> None:
    """0.8.5 counts blocks, 0.9.1 tokens, under one name and on pages that are alike otherwise."""
    blocks = {
        "vllm:prompt_tokens_total": M,
        "vllm:gpu_prefix_cache_queries_total": M / 16,
        "vllm:gpu_prefix_cache_hits_total": M / 32,
    }
    tokens = {**blocks, "vllm:gpu_prefix_cache_queries_total": M, "vllm:gpu_prefix_cache_hits_total": M / 2}
    for page in (vllm("vllm@0.8.5", blocks), vllm("vllm@0.9.1", tokens)):
        verdict, m = told(page)
        assert (verdict.name, m.device_hit_tokens) == ("no_tier", M / 2)


@pytest.mark.parametrize(
    ("version", "queries"),
    [("0.11.1", 2 * M), ("0.13", M), ("0.14", 0.4 * M)],
    ids=["counted twice", "all prompt tokens", "what the device lacked"],
)
def test_the_denominator_of_external_queries_decides_nothing(
    vllm: Page, version: str, queries: float
) -> None:
    rows = {
        "vllm:prompt_tokens_total": M,
        "vllm:prefix_cache_queries_total": M,
        "vllm:prefix_cache_hits_total": 0.6 * M,
        "vllm:external_prefix_cache_queries_total": queries,
        "vllm:external_prefix_cache_hits_total": 0.2 * M,
    }
    verdict, m = told(vllm(f"vllm@{version}", rows))
    assert verdict.name == "helping"
    assert m.hit_ratio.external is not None
    assert m.hit_ratio.external.value == pytest.approx(0.2)


def test_lookups_retried_three_times_over(vllm: Page) -> None:
    rows = {
        "vllm:prompt_tokens_total": M,
        "vllm:prefix_cache_queries_total": 3 * M,
        "vllm:prefix_cache_hits_total": 0.9 * M,
        "vllm:external_prefix_cache_queries_total": M,
        "vllm:external_prefix_cache_hits_total": 0.3 * M,
    }
    verdict, m = told(vllm("vllm@0.12", rows))
    assert (verdict.name, m.device_hit_tokens) == ("helping", pytest.approx(0.3 * M))


def test_a_counter_that_went_below_zero_is_no_evidence(vllm: Page) -> None:
    """vLLM 0.18 could do that under load (vllm issue 38230)."""
    broken = native(M, 0.3 * M, 0.3 * M, 0.4 * M)
    broken['vllm:prompt_tokens_by_source_total{source="local_compute"}'] = -5.0
    assert told(vllm("vllm@0.28", broken))[0].name == "undecided"


# --- the load path, the store path ----------------------------------------------------------------


def test_matches_that_never_load(vllm: Page) -> None:
    """Hits are counted when a block is matched; the bytes tell whether it came."""
    rows = native(M, 0.3 * M, 0.3 * M, 0.4 * M)
    rows["vllm:kv_offload_load_bytes_total"] = rows["vllm:kv_offload_load_time_total"] = 0.0
    verdict, _ = told(vllm("vllm@0.28", rows))
    assert (verdict.name, verdict.reason) == ("inert", "matched_never_loaded")
    # With another connector beside it, the hits may be that one's.
    beside = {**rows, "lmcache:num_hit_tokens_total": 0.3 * M}
    assert told(vllm("vllm@0.28", beside))[0].name == "helping"


@pytest.mark.parametrize("connector", [True, False], ids=["native", "unnamed"])
def test_prefix_caching_off_and_nothing_supplied(vllm: Page, connector: bool) -> None:
    rows = native(M, 0, 0, M)
    if not connector:
        rows = {k: v for k, v in rows.items() if "kv_offload" not in k}
    off = INFO.replace('caching="True"', 'caching="False"')
    verdict, _ = told(vllm("vllm@0.32", rows, info=off))
    assert (verdict.name, verdict.reason) == ("inert", "prefix_caching_off")
    assert "prefix cache" in verdict.summary
    # What is supplied is no fault; without a connector there is nothing to be inert.
    assert told(vllm("vllm@0.32", native(M, 0, 0.5 * M, 0.5 * M), info=off))[0].name == "helping"
    assert told(vllm("vllm@0.32", {"vllm:prompt_tokens_total": M}, info=off))[0].name == "no_tier"


def test_a_few_long_prompts_among_short_ones_must_be_stored(vllm: Page) -> None:
    """Their mean is below LMCache's chunk of 256 tokens, and they are not."""
    prompts = [20] * 360 + [1820] * 40
    rows = {
        "vllm:prompt_tokens_total": 80_000.0,
        "vllm:external_prefix_cache_queries_total": 80_000.0,
        "lmcache:num_lookup_tokens_total": 80_000.0,
        "lmcache:num_stored_tokens_total": 70_000.0,
    }
    verdict, _ = told(vllm("vllm@0.24", rows, prompts=prompts))
    assert (verdict.name, verdict.reason) == ("no_reuse", "no_hits")
    short, _ = told(vllm("vllm@0.24", {**rows, "lmcache:num_stored_tokens_total": 0.0}, prompts=[200] * N))
    assert (short.name, short.reason) == ("no_reuse", "prompts_below_chunk")


def test_nothing_stored(vllm: Page) -> None:
    assert told(vllm("vllm@0.28", native(M, 0.3 * M, 0, 0)))[0].reason == "nothing_stored"
    # What the device has needs no storing.
    assert told(vllm("vllm@0.28", native(M, 0.9999 * M, 0, 0)))[0].name == "not_needed"


# --- size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", [1000, 1000 / 3])
def test_a_tier_of_exactly_the_size_of_the_device(vllm: Page, cost: float) -> None:
    page = vllm("vllm@0.28", native(M, 0.3 * M, 0, 0.9 * M))
    verdict, _ = told(page, tier_bytes=160_000 * cost, bytes_per_token=cost)
    assert (verdict.name, verdict.confidence) == ("tier_too_small", "high")
    assert told(page, tier_bytes=160_016 * cost, bytes_per_token=cost)[0].name != "tier_too_small"


def test_the_capacity_that_033_exports(vllm: Page) -> None:
    def page(tokens: int) -> str:
        info = f'cpu_num_chunks="{tokens // 16}",cpu_blocks_per_chunk="1",cpu_kv_cache_size_tokens="{tokens}"'
        return vllm(
            "vllm@0.33", native(M, 0.3 * M, 0, 0.9 * M, **{f"vllm:kv_offload_config_info{{{info}}}": 1.0})
        )

    assert told(page(160_000))[0].name == "tier_too_small"
    assert told(page(320_000))[0].name == "thrashing"


def test_the_device_pool_of_a_server_in_a_fleet_and_with_data_parallel_engines(vllm: Page) -> None:
    """`num_gpu_blocks` is summed over the engines of one server, and repeated on each engine's row."""

    def rows(labels: str) -> str:
        return vllm("vllm@0.22", {"vllm:prompt_tokens_total": 1}, labels=labels, types=False, start=None)

    fleet = "".join(rows(f'engine="0",instance="h{i}",model_name="m"') for i in range(4))
    assert told(fleet, "vllm@0.22")[1].tier.device_pool_tokens == 160_000
    parallel = "".join(rows(f'engine="{i}",model_name="m"') for i in range(4))
    assert told(parallel, "vllm@0.22")[1].tier.device_pool_tokens == 40_000


# --- traffic --------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [0.0, 0.03], ids=["nothing shared", "a shared preamble"])
def test_one_shot_traffic(vllm: Page, device: float) -> None:
    verdict, _ = told(vllm("vllm@0.28", native(M, device * M, 0, (1 - device) * M)))
    assert verdict.name == "no_reuse"


def test_windows_without_prompts(vllm: Page) -> None:
    rows = native(M, 0.3 * M, 0.3 * M, 0.4 * M)
    start = scrape(vllm("vllm@0.28", rows))
    preempted = rows | {"vllm:num_preemptions_total": 50.0, "vllm:kv_offload_load_bytes_total": 2e9}
    assert judge(meters(window(start, scrape(vllm("vllm@0.28", preempted))))).name == "undecided"
    assert judge(meters(window(start, start))).name == "undecided"
    idle = scrape(vllm("vllm@0.28", {"vllm:prompt_tokens_total": M}))
    empty = judge(meters(window(idle, idle)))
    assert (empty.name, empty.reason, empty.confidence) == ("no_tier", "no_traffic", "low")


# --- windows --------------------------------------------------------------------------------------


def test_gauges_that_fall_are_no_resets_where_the_page_has_no_types(vllm: Page) -> None:
    """Pages cut down by `grep`, or federated, say no types or `untyped`."""
    busy = {"vllm:num_requests_running": 9.0, "vllm:kv_cache_usage_perc": 0.9}
    before = vllm("vllm@0.28", native(1e5, 1e4, 1e4, 8e4, **busy))
    after = vllm(
        "vllm@0.28", native(M, 0.3 * M, 0.3 * M, 0.4 * M, **{"vllm:num_requests_running": 1.0}), n=800
    )
    for strip in (_without_types, _untyped):
        found = window(scrape(strip(before)), scrape(strip(after)))
        assert found.increase("vllm:prompt_tokens_total") == M - 1e5
        assert not found.notes


def _without_types(page: str) -> str:
    return "".join(line for line in page.splitlines(True) if not line.startswith("#"))


def _untyped(page: str) -> str:
    lines = (line.split() if line.startswith("# TYPE") else None for line in page.splitlines())
    return (
        "\n".join(
            f"# TYPE {words[2]} untyped" if words else line
            for words, line in zip(lines, page.splitlines(), strict=True)
        )
        + "\n"
    )


def test_data_parallel_engines_come_go_and_restart(vllm: Page) -> None:
    def page(*counts: float) -> str:
        return "".join(
            vllm(
                "vllm@0.28",
                native(c, 0.2 * c, 0.2 * c, 0.6 * c),
                labels=f'engine="{i}",model_name="m"',
                types=not i,
            ).replace(START, START if not i else "")
            for i, c in enumerate(counts)
        )

    def increase(before: str, after: str) -> float | None:
        return window(scrape(before), scrape(after)).increase("vllm:prompt_tokens_total")

    assert increase(page(1e6, 1e6), page(2e6, 5e5)) == 1.5e6  # engine 1 restarted
    assert increase(page(1e6), page(2e6, 5e5)) == 1.5e6  # engine 1 is new
    assert increase(page(1e6, 1e6), page(2e6)) == 1e6  # engine 1 is gone
    assert any("engines are gone" in note for note in window(scrape(page(1, 1)), scrape(page(2))).notes)


def test_two_pages_of_different_models_are_no_window(vllm: Page) -> None:
    before = vllm("vllm@0.28", native(1e6, 2e5, 2e5, 6e5))
    after = vllm("vllm@0.28", native(5e6, 1e6, 1e6, 3e6), n=800).replace(
        'model_name="m"', 'model_name="other"'
    )
    with pytest.raises(InputError, match="model `m`, the second of `other`"):
        window(scrape(before), scrape(after))
    # Unless the server restarted with another model.
    restarted = after.replace(START, "process_start_time_seconds 1700000500.0\n")
    assert window(scrape(before), scrape(restarted)).increase("vllm:prompt_tokens_total") == 5e6


def test_two_models_on_one_page_are_named(vllm: Page) -> None:
    page = vllm("vllm@0.28", native(M, 0.3 * M, 0.3 * M, 0.4 * M)) + vllm(
        "vllm@0.28", native(M, 0, 0, M), labels='engine="0",model_name="other"', types=False, start=None
    )
    assert any("2 models are added together (m, other)" in note for note in told(page)[1].notes)


# --- LMCache --------------------------------------------------------------------------------------


def own_server(**counts: float) -> str:
    """The page of LMCache's own server; a counter is absent until its first event."""
    return "".join(f'lmcache_mp_{name}_total{{model_name="m"}} {value}\n' for name, value in counts.items())


def in_process(**counts: float) -> str:
    """The page of LMCache's API server beside a worker."""
    labels = 'model_name="m",role="worker",worker_id="0"'
    return "".join(f"lmcache:{name}_total{{{labels}}} {value}\n" for name, value in counts.items())


@pytest.mark.parametrize(
    ("hits", "expected"), [(0.5 * M, {"helping"}), (0.005 * M, {"no_reuse"}), (None, {"no_reuse"})]
)
def test_lmcaches_own_server_alone(hits: float | None, expected: set[str]) -> None:
    rows = {"lookup_requested_tokens": M, "lookups_requests": 400.0, "l1_write_chunks": 9000.0}
    if hits is not None:
        rows["lookup_hit_tokens"] = hits
    verdict, m = told(own_server(**rows))
    assert verdict.name in expected
    assert m.hit_ratio.external is not None
    assert m.hit_ratio.external.value == pytest.approx((hits or 0) / M)
    assert m.hit_ratio.denominator == "lmcache_mp_lookup_requested_tokens_total"


def test_lmcache_matches_what_the_device_has(vllm: Page) -> None:
    """Lookups match the whole prompt, retrieves only what the device lacks (production-stack issue 818)."""
    rows = {
        "num_lookup_tokens": 2e6,
        "num_lookup_hits": 1.2e6,
        "num_hit_tokens": 0.0,
        "num_prompt_tokens": 2e6,
    }
    covered, m = told(in_process(**rows, num_stored_tokens=8e5, num_vllm_hit_tokens=1.2e6))
    assert (covered.name, m.external_hit_tokens) == ("not_needed", 0)
    loaded, m = told(
        in_process(**rows | {"num_hit_tokens": 8e5}, num_stored_tokens=8e5, num_vllm_hit_tokens=4e5)
    )
    assert (loaded.name, m.external_hit_tokens) == ("helping", 8e5)
    beside = vllm("vllm@0.14", native(2e6, 1.2e6, 0, 0), types=True).replace("vllm:kv_offload", "other:x")
    assert told(beside + in_process(**rows, num_stored_tokens=8e5))[0].name == "not_needed"


# --- SGLang ---------------------------------------------------------------------------------------


def hicache(
    device: float, host: float, *, capacity: float = 400_000, backup: float = 0.5, rank: int = 0
) -> dict[str, float]:
    """What SGLang 0.5.23 counts with HiCache; a token takes 500 bytes per rank, and a source shows once it supplied."""
    at = f'{{tp_rank="{rank}"}}'
    rows = {
        "sglang:prompt_tokens_total": M,
        'sglang:cached_tokens_total{cache_source="device"}': device * M,
        'sglang:cached_tokens_total{cache_source="total"}': (device + host) * M,
        f"sglang:hicache_host_total_tokens{at}": capacity,
        f"sglang:max_total_num_tokens{at}": 100_000,
        f"sglang:hicache_backup_tokens_total{at}": backup * M,
        f"sglang:hicache_backup_bytes_total{at}": backup * M * 500,
        f"sglang:load_back_tokens_total{at}": host * M,
        f"sglang:load_back_bytes_total{at}": host * M * 500,
        f"sglang:load_back_duration_seconds_sum{at}": 0.5,
        f"sglang:load_back_duration_seconds_count{at}": 10,
    }
    return rows | ({'sglang:cached_tokens_total{cache_source="host"}': host * M} if host else {})


@pytest.fixture(scope="module")
def sglang(whole_page: Page) -> Page:
    def write(values: dict[str, float], version: str = "sglang@0.5.23") -> str:
        ttft = [0.5 * (0.3 + 1.4 * i / N) for i in range(N)]
        observed = {"time_to_first_token_seconds": ttft, "queue_time_seconds": [0.1 * t for t in ttft]}
        return whole_page(
            version, values, observed, labels='engine_type="unified",model_name="m"', start=None
        )

    return write


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (hicache(0.3, 0.3), "helping"),
        (hicache(0.3, 0, capacity=60_000), "tier_too_small"),
        (hicache(0, 0, backup=1), "no_reuse"),
        (hicache(0.1, 0, backup=0.9), "thrashing"),
        (hicache(0.1, 0, backup=0), "inert"),
        (hicache(0.3, 0.3) | {'sglang:load_back_duration_seconds_sum{tp_rank="0"}': 5000.0}, "hurting"),
    ],
)
def test_hicache(sglang: Page, rows: dict[str, float], expected: str) -> None:
    assert told(sglang(rows))[0].name == expected


def test_ranks_of_hicache_count_the_same_tokens_and_their_own_bytes(sglang: Page) -> None:
    rows = {k: v for rank in range(4) for k, v in hicache(0.3, 0.3, rank=rank).items()}
    verdict, m = told(sglang(rows))
    assert (verdict.name, m.load_seconds, m.store_tokens, m.tier.capacity_tokens) == (
        "helping",
        0.5,
        0.5 * M,
        400_000,
    )
    assert m.load_bytes == 4 * 0.3 * M * 500


def test_families_of_hicache_at_zero_are_no_hicache(sglang: Page) -> None:
    rows = {"sglang:prompt_tokens_total": M, 'sglang:cached_tokens_total{cache_source="device"}': 0.4 * M}
    page = sglang(rows, "sglang@0.5.16")
    assert "sglang:hicache_host_total_tokens" in page
    assert told(page)[0].name == "no_tier"


# --- transfers between servers --------------------------------------------------------------------


@pytest.mark.parametrize(("host", "expected"), [(0.0, "undecided"), (0.3 * M, "helping")])
def test_hits_that_other_servers_sent_are_not_the_tiers(vllm: Page, host: float, expected: str) -> None:
    """0.32 shows every source from the start, at zero."""
    rows = native(M, 0.1 * M, 0.8 * M, 0.2 * M)
    for source, tokens in (
        ("device", 0.1 * M),
        ("host", host),
        ("disk", 0),
        ("external_unspecified", 0.8 * M - host),
    ):
        rows[f'vllm:prompt_tokens_cached_by_source_total{{source="{source}"}}'] = tokens
    rows |= {"vllm:nixl_bytes_transferred_count": 400, "vllm:nixl_bytes_transferred_sum": 1e9}
    verdict, m = told(vllm("vllm@0.32", rows))
    assert verdict.name == expected
    assert m.external_hit_tokens == (host or 0.8 * M)


def test_names_with_dots() -> None:
    """As OpenTelemetry calls them, quoted, where a server was asked for UTF-8 names."""
    page = "".join(
        f'{{"lmcache_mp.{name}_total",model_name="m"}} {value}\n'
        for name, value in (("lookup_requested_tokens", M), ("lookup_hit_tokens", 0.5 * M))
    )
    assert told(page)[1].external_hit_tokens == 0.5 * M


def test_a_fleet_in_which_one_server_has_the_tier(vllm: Page) -> None:
    def rows(instance: str, values: dict[str, float]) -> str:
        return vllm(
            "vllm@0.32",
            values,
            labels=f'engine="0",instance="{instance}",model_name="m"',
            types=False,
            start=None,
        )

    canary = rows("http://a", native(M, 0.1 * M, 0.3 * M, 0.6 * M))
    others = "".join(rows(f"http://b{i}", {"vllm:prompt_tokens_total": M}) for i in range(3))
    notes = told(canary + others)[1].notes
    assert any(
        "1 of 4 servers have OffloadingConnector" in note and "instance=http://a" in note for note in notes
    )
    assert not any("servers have" in note for note in told(canary)[1].notes)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_strange_values_matter_only_where_they_are_read(vllm: Page, value: float) -> None:
    rows = native(M, 0.3 * M, 0.3 * M, 0.4 * M)
    assert told(vllm("vllm@0.32", rows | {"vllm:mm_cache_hits_total": value}))[0].name == "helping"
    assert (
        told(vllm("vllm@0.32", rows | {"vllm:external_prefix_cache_hits_total": value}))[0].name
        == "undecided"
    )


@pytest.mark.parametrize(("stored", "expected"), [(0.1 * M, "thrashing"), (0.0, "inert")])
def test_a_tier_that_refuses_stores(vllm: Page, stored: float, expected: str) -> None:
    """A gauge near 1 is no full tier, but pinned blocks; with refusals, there is no room for new ones."""
    pinned = {
        "vllm:kv_offload_cpu_cache_write_usage_perc": 0.98,
        "vllm:kv_offload_allocation_failure_total": 5000.0,
    }
    verdict, _ = told(vllm("vllm@0.28", native(M, 0.2 * M, 0, stored, **pinned)))
    assert verdict.name == expected
    assert "5,000 stores were refused" in verdict.summary


def test_a_server_that_the_metrics_are_not_of(vllm: Page) -> None:
    page = vllm("vllm@0.32", native(M, 0.3 * M, 0.3 * M, 0.4 * M))
    with pytest.raises(InputError, match="no metric of `sglang`"):
        told(page, "sglang@0.5.23")
    for version in ("vllm@0.8.5", "vllm@0.32"):
        assert told(page, version)[0].name == "helping"


def test_requests_that_ended_in_an_error_are_named(vllm: Page) -> None:
    rows = native(M, 0.3 * M, 0.3 * M, 0.4 * M) | {'vllm:request_success_total{finished_reason="error"}': 7.0}
    assert any("7 requests ended in an error" in note for note in told(vllm("vllm@0.32", rows))[1].notes)
