"""Plans: sizes against arithmetic done by hand, verdicts case by case, server words against real scrapes."""

from dataclasses import replace
from pathlib import Path

import pytest

from warmset.errors import InputError, UnknownName, Unsupported
from warmset.geometry import Geometry, load, uniform
from warmset.plan import Plan, PlanRequest, make_plan
from warmset.plan.host import Placement
from warmset.plan.rows import window_rows
from warmset.servers import engine
from warmset.units import GIB

LLAMA = uniform(32, 8, 128)


def plan(geometry: Geometry = LLAMA, **given: object) -> Plan:
    defaults: dict[str, object] = {"sessions": 200, "context_tokens": 8192, "hbm_kv_bytes": 28 * GIB}
    if "gpu" in given or {"metrics", "log", "kv_cache_tokens"} & set(given):
        defaults.pop("hbm_kv_bytes")
    return make_plan(PlanRequest(geometry=geometry, **{**defaults, **given}))  # type: ignore[arg-type]


def test_the_worked_example() -> None:
    p = plan()
    assert p.bytes_per_token == 131_072
    assert p.demand.bytes_per_session == GIB
    assert p.demand.warm_set_bytes == p.demand.device_bytes == 200 * GIB
    assert p.device.kv_budget_bytes == 28 * GIB
    assert p.tier.exclusive_bytes == pytest.approx(197.8 * GIB, abs=1)
    assert p.tier.inclusive_bytes == p.tier.recommended_bytes == 230 * GIB
    assert p.tier.inclusion == "inclusive"
    assert p.decision.verdict == "offload"


def test_twenty_sessions_leave_it_off() -> None:
    p = plan(sessions=20)
    assert p.decision.verdict == "leave_off"
    assert p.tier.recommended_bytes == p.tier.host_memory_bytes == p.tier.exclusive_bytes == 0
    assert p.tier.inclusive_bytes == 23 * GIB


def test_the_block_that_the_server_keeps_is_no_room_for_sessions() -> None:
    """vLLM 0.32: `BlockPool(num_gpu_blocks=100)` has 99 free blocks, and a hundredth cannot be allocated."""
    block = 16 * 131_072
    exactly = plan(sessions=28)
    assert exactly.demand.device_bytes == exactly.device.kv_budget_bytes == 28 * GIB
    assert (exactly.device.usable_bytes, exactly.device.reserved_bytes) == (28 * GIB - block, block)
    # One block is no reason for a tier.
    assert (exactly.device.sessions, exactly.decision.verdict) == (27, "leave_off")
    assert exactly.decision.reasons[1] == (
        "the server keeps one block of 2.00 MiB to itself: 2.00 MiB more on the device would hold the last session"
    )
    fits = plan(sessions=28, hbm_kv_bytes=28 * GIB + block)
    assert (fits.device.sessions, len(fits.decision.reasons)) == (28, 1)
    # What is given beyond whole blocks counts towards the one that is missing.
    half = plan(sessions=28, hbm_kv_bytes=28 * GIB + block // 2)
    assert "1.00 MiB more on the device" in half.decision.reasons[1]
    assert plan(sessions=28, hbm_kv_bytes=28 * GIB - block).decision.verdict == "offload"


@pytest.mark.parametrize("version", ["0.4.10", "0.5.23"])
def test_sglang_keeps_no_block(version: str) -> None:
    """`TokenToKVPoolAllocator(size)` hands out slots 1 to size of a buffer of size + page_size, in both versions."""
    p = plan(sessions=28, engine=engine(f"sglang@{version}"))
    assert (p.device.usable_bytes, p.device.reserved_bytes) == (28 * GIB, 0)
    assert (p.device.sessions, p.device.tokens) == (28, 28 * 8192)
    assert (p.decision.verdict, len(p.decision.reasons)) == ("leave_off", 1)
    one = plan(sessions=1, hbm_kv_bytes=GIB, engine=engine(f"sglang@{version}"))
    assert (one.decision.verdict, one.device.max_context_tokens) == ("leave_off", 8192)


def test_sglangs_tokens_are_slots() -> None:
    """A pool of 8,191 slots holds no session of 8,192 tokens; vLLM's count is rounded down from whole blocks."""
    asked = {"sessions": 1, "kv_cache_tokens": 8191}
    assert plan(engine=engine("sglang"), **asked).decision.verdict == "does_not_fit"
    assert plan(engine=engine("sglang"), **{**asked, "kv_cache_tokens": 8192}).decision.verdict == "leave_off"
    assert plan(engine=engine("vllm"), **asked).device.kv_budget_bytes == GIB


def test_uneven_pipeline_ranks_waste_memory_and_not_the_servers_block() -> None:
    """33 layers on two ranks: the one with 17 fills 14 GiB with 14 GiB // (17 × 64 KiB) = 13,492 blocks."""
    deep = uniform(33, 8, 128)
    blocks = 14 * GIB // (17 * 65_536)
    assert blocks == 13_492
    for server, reserved in (("vllm", 1), ("sglang", 0)):
        p = plan(deep, pp=2, sessions=27, engine=engine(server))
        # 27 sessions of 512 blocks are 27.8 GiB of a pool of 28 GiB, and 332 blocks too many.
        assert p.demand.device_bytes == 27 * 512 * 33 * 65_536 < 28 * GIB
        assert p.device.usable_bytes == (blocks - reserved) * 33 * 65_536
        assert (p.device.sessions, p.decision.verdict) == (26, "offload")
        said = " ".join(p.decision.reasons)
        assert "sessions can hold 27.2 GiB of the device's 28.0 GiB" in said
        assert "pipeline rank" in said
        assert "keeps one block" not in said
    # All blocks but the server's own: the missing one is as large as on the heaviest rank, on both.
    edge = plan(deep, pp=2, sessions=1, context_tokens=16 * 512, hbm_kv_bytes=2 * 512 * 17 * 65_536)
    assert edge.decision.verdict == "does_not_fit"
    assert "keeps one block" in " ".join(edge.decision.reasons)
    assert any(fix.startswith("2.12 MiB more KV memory") for fix in edge.decision.fixes)


def test_one_session_as_large_as_the_pool_lacks_the_servers_block() -> None:
    p = plan(sessions=1, hbm_kv_bytes=GIB)
    assert (p.decision.verdict, p.device.sessions, p.device.max_context_tokens) == ("does_not_fit", 0, 8176)
    assert p.decision.reasons[:2] == (
        "one session of 8,192 tokens takes 1.00 GiB and sessions can hold 1,022 MiB of the device's 1.00 GiB",
        "the server keeps one block of 2.00 MiB to itself",
    )
    assert any("`--max-model-len 8176`" in fix for fix in p.decision.fixes)
    assert any(fix.startswith("2.00 MiB more KV memory on the device") for fix in p.decision.fixes)
    assert plan(sessions=1, hbm_kv_bytes=GIB + 2 * 2**20).decision.verdict == "leave_off"


def test_sizes_at_the_edge_are_no_zeros() -> None:
    """Every sentence of plans that lack or take a few MiB: no `0.0 GiB`, and no two sizes that read the same."""
    small = uniform(2, 1, 64)
    asked: tuple[tuple[Geometry, dict[str, object]], ...] = (
        (LLAMA, {"sessions": 28, "hbm_kv_bytes": 28 * GIB - 2**20}),
        (LLAMA, {"sessions": 28, "host_ram_bytes": 36 * GIB, "hbm_kv_bytes": 27 * GIB}),
        (small, {"sessions": 3, "hbm_kv_bytes": 4 * 2**20}),
        (small, {"sessions": 3, "hbm_kv_bytes": 4 * 2**20, "host_ram_bytes": 10 * 2**20}),
        (
            small,
            {
                "sessions": 3,
                "hbm_kv_bytes": 4 * 2**20,
                "host_ram_bytes": 6 * 2**20,
                "storage": ("nvme-gen4",),
            },
        ),
        (small, {"sessions": 3, "hbm_kv_bytes": 4 * 2**20, "dev_shm_bytes": 2**20}),
        (small, {"sessions": 3, "hbm_kv_bytes": 2**20}),
        (small, {"sessions": 1, "hbm_kv_bytes": 9 * 2**20}),
        (small, {"sessions": 3, "hbm_kv_bytes": 4 * 2**20, "engine": engine("vllm@0.19")}),
        (
            load("gemma-3-27b"),
            {"sessions": 2, "context_tokens": 64, "hbm_kv_bytes": 2**26, "engine": engine("vllm@0.19")},
        ),
    )
    for geometry, given in asked:
        p = plan(geometry, **given)
        said = (*p.decision.reasons, *p.decision.fixes, *p.notes, *p.assumptions, *p.tier.conversions)
        assert not [words for words in said if " 0.0 GiB" in f" {words}"], given
    over = plan(sessions=28, hbm_kv_bytes=28 * GIB - 2**20).decision.reasons[0]
    # 28 GiB − 1 MiB are 14,335 blocks, of which the server keeps one: two of 14,336 are missing.
    assert over.endswith("4.00 MiB would be computed again")


def test_hybrid_models_name_their_currencies() -> None:
    """Gemma 3: seven groups share a pool of blocks as wide as the widest, so content, device and tier differ."""
    p = plan(load("gemma-3-27b"), sessions=20, hbm_kv_bytes=20 * GIB)
    assert p.demand.warm_set_bytes < p.demand.device_bytes < p.tier.warm_set_bytes
    assert p.decision.reasons[0].startswith(
        "the warm set takes 22.0 GiB in whole blocks and the device holds 20.0 GiB"
    )
    assert plan().decision.reasons[0] == (
        "the warm set takes 200.0 GiB and the device holds 28.0 GiB: 172.0 GiB would be computed again"
    )


def test_headroom_is_the_users() -> None:
    assert plan(headroom_ratio=0.0).tier.recommended_bytes == 200 * GIB
    assert plan(headroom_ratio=1.0).tier.recommended_bytes == 400 * GIB


def test_a_shared_prefix_is_kept_once() -> None:
    p = plan(shared_prefix_tokens=4096)
    assert p.demand.warm_set_bytes == 200 * GIB - 199 * 4096 * 131_072
    assert p.tier.recommended_bytes == pytest.approx(p.demand.warm_set_bytes * 1.15, abs=1)


def test_sessions_that_share_a_prefix_are_counted_with_it_once() -> None:
    p = plan(shared_prefix_tokens=4096)
    prefix, own = 4096 * 131_072, 4096 * 131_072
    for room, counted in (
        (p.tier.recommended_bytes, p.tier.sessions),
        (28 * GIB - 16 * 131_072, p.device.sessions),
    ):
        assert prefix + counted * own <= room < prefix + (counted + 1) * own
    assert p.tier.sessions == 230
    assert plan(shared_prefix_tokens=8192, hbm_kv_bytes=2 * GIB).device.sessions == 200
    assert plan(shared_prefix_tokens=8192, hbm_kv_bytes=GIB // 2).device.sessions == 0


def test_a_lower_tier_loads_no_faster_than_host_memory() -> None:
    slow, fast = (
        plan(
            storage=("nvme-gen5-raid4",), load_bytes_per_second=rate, prefill_tokens_per_second=1e5
        ).break_even
        for rate in (2e9, 500e9)
    )
    assert slow[1].load_tokens_per_second == slow[0].load_tokens_per_second
    assert "host memory loads 2.0" in slow[1].note
    assert fast[1].load_bytes_per_second < fast[0].load_bytes_per_second
    assert "host memory loads" not in fast[1].note


def test_per_rank_and_fleet_stand_beside() -> None:
    p = plan(tp=4, replicas=3, dp=2)
    assert p.tier.per_rank_bytes == p.tier.recommended_bytes // 4
    assert p.fleet.replicas == 6
    assert p.fleet.tier_bytes == 6 * p.tier.recommended_bytes
    assert p.fleet.sessions == 1200


def test_replicated_heads_count() -> None:
    # 8 KV heads on 16 ranks: two copies of each head.
    assert plan(tp=16).demand.warm_set_bytes == 400 * GIB


# --- the device's budget


def test_estimate_has_a_band_and_says_what_it_assumes() -> None:
    p = plan(load("llama-3.1-8b"), gpu="h100-80gb", engine=engine("vllm@0.19"))
    # Start-up logs of this pair at 0.90 state 53-55 GiB.
    assert 53 * GIB < p.device.kv_budget_bytes < 55 * GIB
    assert p.device.low_bytes < p.device.kv_budget_bytes < p.device.high_bytes
    assert any("0.9 GPU memory utilization" in a for a in p.assumptions)
    newer = plan(load("llama-3.1-8b"), gpu="h100-80gb", engine=engine("vllm@0.32"))
    assert newer.device.kv_budget_bytes > p.device.kv_budget_bytes


def test_weights_that_fill_the_device() -> None:
    p = plan(load("llama-3.1-70b"), gpu="h100-80gb")
    assert p.decision.verdict == "does_not_fit"
    assert p.device.kv_budget_bytes == 0
    assert "weights" in p.decision.reasons[0]
    assert any("--tp 2" in f for f in p.decision.fixes)


def test_metrics_of_a_real_server(shared: Path) -> None:
    # 160 blocks of 128 tokens; the label num_gpu_blocks and the pool in bytes agree: 160 × 128 × bytes per token.
    page = (shared / "metrics" / "chat_on.end.prom").read_text()
    p = plan(uniform(2, 2, 64), metrics=page, context_tokens=4096, sessions=10)
    assert p.device.source == "metrics"
    assert p.device.kv_budget_bytes == 160 * 128 * 2 * 2 * 2 * 64 * 2
    assert p.device.tokens == pytest.approx(159 * 128, abs=128)


def _page(**labels: str) -> str:
    rows = []
    for index in range(int(labels.pop("engines", "1"))):
        text = ",".join(f'{k}="{v}"' for k, v in {**labels, "engine": str(index)}.items())
        rows.append(f"vllm:cache_config_info{{{text}}} 1.0")
    return "# TYPE vllm:cache_config_info gauge\n" + "\n".join(rows) + "\n"


def test_blocks_are_summed_over_data_parallel_engines() -> None:
    one = plan(metrics=_page(num_gpu_blocks="14336", block_size="16", cache_dtype="auto"))
    four = plan(metrics=_page(num_gpu_blocks="57344", block_size="16", cache_dtype="auto", engines="4"))
    assert one.device.kv_budget_bytes == four.device.kv_budget_bytes == 28 * GIB


def test_hybrid_pools_are_not_blocks_times_block_size() -> None:
    # A real gpt-oss-20b: 682 blocks of 128 tokens, logged as 42,976 tokens, not 87,296.
    oss = load("gpt-oss-20b")
    p = plan(oss, metrics=_page(num_gpu_blocks="682", block_size="128"), sessions=3, context_tokens=4096)
    footprint = oss.footprint()
    assert p.device.kv_budget_bytes == 682 * footprint.pool_bytes_per_block
    assert any("not its capacity" in n for n in p.notes)


def test_the_servers_dtype_is_followed() -> None:
    p = plan(metrics=_page(num_gpu_blocks="14336", block_size="16", cache_dtype="fp8"))
    assert p.bytes_per_token == 65_536
    assert p.device.kv_budget_bytes == 14 * GIB


def test_log_of_a_start_up() -> None:
    log = (
        "(APIServer pid=1) INFO [api_server.py:1896] vLLM API server version 0.26.0\n"
        "(Worker_TP0 pid=9) INFO [gpu_worker.py:298] Available KV cache memory: 14.00 GiB\n"
        "(Worker_TP1 pid=9) INFO [gpu_worker.py:298] Available KV cache memory: 14.25 GiB\n"
        "(EngineCore pid=5) INFO GPU KV cache size: 229,376 tokens\n"
        "(EngineCore pid=5) INFO Maximum concurrency for 32,768 tokens per request: 7.00x\n"
    )
    p = plan(log=log, tp=2)
    assert p.device.source == "log"
    assert p.device.kv_budget_bytes == 28 * GIB
    assert p.engine == "vllm@0.26.0"


def test_log_that_says_what_fits() -> None:
    # 144 KiB per token; the server stopped and named the longest context itself.
    log = (
        "ValueError: To serve at least one request with the max seq len (32768), (4.50 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (3.58 GiB). Based on the available memory, the estimated "
        "maximum model length is 26032."
    )
    p = plan(uniform(36, 8, 128), log=log, context_tokens=32768, sessions=1)
    assert p.demand.bytes_per_session == int(4.5 * GIB)
    assert p.decision.verdict == "does_not_fit"
    assert "26,032 tokens" in p.decision.fixes[0]
    assert "`--max-model-len 26032`" in p.decision.fixes[0]
    assert any("fp8" in f for f in p.decision.fixes)


def test_kv_cache_tokens() -> None:
    assert plan(kv_cache_tokens=229_376).device.kv_budget_bytes == 28 * GIB
    # gemma-3-27b, 40 GiB: the server logs 459,354 tokens at its maximum context of 131,072.
    p = plan(load("gemma-3-27b"), kv_cache_tokens=459_354, max_model_len=131_072)
    assert p.device.kv_budget_bytes == pytest.approx(40 * GIB, rel=0.001)


# --- verdicts


def test_a_context_beyond_the_device_fits_no_tier() -> None:
    p = plan(hbm_kv_bytes=GIB // 2)
    assert p.decision.verdict == "does_not_fit"
    assert p.tier.recommended_bytes == 0
    # One block is the server's own.
    assert any(f"{4096 - 16:,}" in f for f in p.decision.fixes)


def test_more_than_the_host_asks_for_a_lower_tier() -> None:
    p = plan(host_ram_bytes=128 * GIB, gpu="h100", kv_cache_tokens=229_376)
    assert p.decision.verdict == "add_lower_tier"
    assert p.lower_tier is not None
    assert p.lower_tier.recommended_bytes == 230 * GIB
    assert p.tier.recommended_bytes == 115 * GIB
    assert p.tier.host_memory_bytes <= 128 * GIB
    assert p.backend == "native+disk"


def test_host_memory_that_only_mirrors_the_device_is_not_recommended() -> None:
    p = plan(host_ram_bytes=24 * GIB)
    assert p.decision.verdict == "add_lower_tier"
    assert p.tier.recommended_bytes == 0
    assert p.lower_tier is not None
    assert 0 < p.lower_tier.staging_bytes <= 24 * GIB


def test_slow_lower_tiers_are_not_recommended() -> None:
    given = {"host_ram_bytes": 24 * GIB, "storage": ("object-10gbe",), "prefill_tokens_per_second": 30_000.0}
    assert plan(**given).decision.verdict == "recompute"
    partly = plan(**{**given, "host_ram_bytes": 100 * GIB})
    assert partly.decision.verdict == "offload"
    assert partly.tier.recommended_bytes == 90 * GIB


def test_loading_slower_than_prefill_is_recompute() -> None:
    p = plan(prefill_tokens_per_second=20_000.0, load_bytes_per_second=1e9)
    assert p.decision.verdict == "recompute"
    assert p.tier.recommended_bytes == 0
    host = p.break_even[0]
    assert host.load_tokens_per_second == pytest.approx(1e9 / 131_072)
    assert host.ratio == pytest.approx(1e9 / 131_072 / 20_000)


def test_unified_memory_gains_nothing() -> None:
    p = plan(load("llama-3.1-8b"), gpu="mi300a", sessions=2000)
    assert p.decision.verdict == "recompute"
    assert "share one memory" in p.decision.reasons[0]


def test_container_limit_counts_the_servers_own_memory() -> None:
    assert plan(container_limit_bytes=205 * GIB).decision.verdict == "add_lower_tier"
    assert plan(container_limit_bytes=237 * GIB).decision.verdict == "offload"


# --- what the backend and the host make of it


def test_latents_are_kept_once_since_027() -> None:
    v3 = load("deepseek-v3")
    given = {"tp": 8, "hbm_kv_bytes": 300 * GIB, "sessions": 200, "context_tokens": 32_768}
    new = plan(v3, engine=engine("vllm@0.32"), **given)
    old = plan(v3, engine=engine("vllm@0.26"), **given)
    assert new.demand.warm_set_bytes == old.demand.warm_set_bytes == 200 * 32_768 * 562_176
    assert old.tier.recommended_bytes == pytest.approx(8 * new.tier.recommended_bytes, rel=1e-3)
    assert new.tier.recommended_bytes == pytest.approx(200 * 32_768 * 70_272 * 1.15, rel=1e-3)


def test_hybrids_take_a_row_per_group() -> None:
    gemma = load("gemma-3-27b")
    groups, row = len(gemma.footprint().tables), gemma.footprint().pool_bytes_per_block
    # Until 0.29 each of the seven groups stores all 512 blocks of a session.
    old = plan(gemma, hbm_kv_bytes=20 * GIB, engine=engine("vllm@0.29"))
    assert old.tier.inclusive_bytes == pytest.approx(200 * groups * 512 * row * 1.15, rel=1e-6)
    assert old.tier.inclusive_bytes > 4 * old.demand.warm_set_bytes
    # Since 0.30 the six window groups store the 64 blocks before the ends of the last two prompts.
    new = plan(gemma, hbm_kv_bytes=20 * GIB, engine=engine("vllm@0.32"))
    assert new.tier.inclusive_bytes == pytest.approx(200 * (512 + 6 * 2 * 64) * row * 1.15, rel=1e-6)
    for p in (old, new):
        assert any("rows" in c for c in p.tier.conversions)


def test_rows_of_states_follow_the_version() -> None:
    model = load("qwen3.5-27b")
    given = {"context_tokens": 65_536, "sessions": 50, "hbm_kv_bytes": 40 * GIB, "headroom_ratio": 0.0}
    row, states = model.footprint().pool_bytes_per_block, len(model.footprint().tables) - 1
    full = 65_536 // 784
    old = plan(model, engine=engine("vllm@0.28"), **given)
    assert old.tier.inclusive_bytes == 50 * (full + states * 9) * -(-row // 4096) * 4096
    new = plan(model, engine=engine("vllm@0.32"), **given)
    assert new.tier.inclusive_bytes == 50 * (full + 2 + states * 3) * -(-row // 4096) * 4096


def test_small_blocks_of_compressed_models_store_little() -> None:
    # DeepSeek V4 hits end every 256 tokens; a compressor of window 8 in blocks of 4 needs two blocks there.
    assert window_rows(32_768, 4, 8, 256, tails=False) == 128 * 2
    assert window_rows(32_768, 4, 8, 256, tails=True) == 4
    assert window_rows(32_768, 64, 128, 256, tails=False) == 128 * 2
    # A remainder keeps its own end; blocks that do not divide the segment are all kept; so is a window of a segment.
    assert window_rows(300, 4, 8, 256, tails=False) == 2 + 2
    assert window_rows(32_768, 48, 1024, 16, tails=True) == 682
    assert window_rows(32_768, 16, 4096, 2048, tails=False) == 2048


def test_pinned_tensors_round_to_powers_of_two_until_027() -> None:
    # 40 GiB per rank pin 64 GiB each (vLLM pull request 48436).
    given = {"tp": 2, "sessions": 80, "headroom_ratio": 0.0}
    old = plan(engine=engine("vllm@0.25"), **given)
    assert old.tier.recommended_bytes == 80 * GIB
    assert old.tier.host_memory_bytes == 128 * GIB
    assert old.tier.dev_shm_bytes == 0
    new = plan(engine=engine("vllm@0.28"), **given)
    assert new.tier.host_memory_bytes == new.tier.dev_shm_bytes == 80 * GIB
    assert any("/dev/shm must hold 80.0 GiB" in n for n in new.notes)
    assert any("too small" in n for n in plan(engine=engine("vllm@0.28"), dev_shm_bytes=GIB, **given).notes)


def test_old_versions_drop_the_hybrid_manager() -> None:
    gemma = load("gemma-3-27b")
    old = plan(gemma, engine=engine("vllm@0.20"), hbm_kv_bytes=20 * GIB)
    assert any("hybrid KV-cache manager off" in n for n in old.notes)
    with pytest.raises(Unsupported, match="hybrid"):
        plan(load("qwen3.5-27b"), engine=engine("vllm@0.20"), hbm_kv_bytes=20 * GIB)


def test_backends_and_servers_complete_each_other() -> None:
    assert plan(engine=engine("sglang")).backend == "hicache"
    hicache = plan(backend="hicache")
    assert hicache.engine.startswith("sglang@")
    assert hicache.tier.host_memory_bytes % 10**9 == 0
    assert plan(backend="lmcache").tier.chunk_tokens == 256
    for wrong in (
        {"backend": "hicache", "engine": engine("vllm")},
        {"backend": "native", "engine": engine("sglang")},
    ):
        with pytest.raises(InputError):
            plan(**wrong)
    with pytest.raises(Unsupported):
        plan(engine=engine("vllm@0.10"))


def test_cost() -> None:
    p = plan(ram_price_per_gib=3.0)
    assert p.cost is not None
    assert p.cost.total == pytest.approx(690)
    assert p.cost.per_warm_session == pytest.approx(3.45)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"sessions": 0}, "sessions"),
        ({"sessions": -5}, "sessions"),
        ({"sessions": 10**12}, "absurd"),
        ({"sessions": 10**9}, "sessions of `8,192` tokens need a tier"),
        ({"context_tokens": 0}, "context"),
        ({"hbm_kv_bytes": 0}, "--hbm-kv"),
        ({"tp": 0}, "--tp"),
        ({"shared_prefix_tokens": 9000}, "prefix"),
        ({"headroom_ratio": -0.1}, "headroom"),
        ({"max_model_len": 4096}, "--max-model-len"),
        ({"replicas": 0}, "replicas"),
        ({"prefill_tokens_per_second": float("nan")}, "--prefill-tps"),
        ({"load_bytes_per_second": -1.0}, "--load-gbps"),
        ({"kv_dtype": "fp7"}, "fp7"),
        ({"gpu": "h100", "hbm_kv_bytes": 2**34, "gpu_memory_utilization": 0.9}, "--gpu-memory-utilization"),
    ],
)
def test_bad_input_names_the_value(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        plan(**wrong)


def test_unknown_and_contradicting_input() -> None:
    with pytest.raises(UnknownName, match="h1000"):
        plan(gpu="h1000", hbm_kv_bytes=GIB)
    with pytest.raises(UnknownName, match="floppy"):
        plan(storage=("floppy",))
    with pytest.raises(UnknownName, match="magic"):
        plan(backend="magic")
    with pytest.raises(InputError, match="each state"):
        plan(hbm_kv_bytes=GIB, kv_cache_tokens=8192)
    with pytest.raises(InputError, match="not known"):
        make_plan(PlanRequest(geometry=LLAMA, sessions=1, context_tokens=16))
    with pytest.raises(InputError, match="states no KV cache size"):
        plan(log="INFO nothing of interest")
    with pytest.raises(InputError, match="heads"):
        plan(load("llama-3.1-8b"), tp=3)
    with pytest.raises(InputError, match="maximum"):
        plan(load("llama-2-7b"), context_tokens=8192)


@pytest.mark.parametrize(
    "log",
    [
        "Available KV cache memory: " + "9" * 1_000_000 + " GiB",
        "Available KV cache memory: 999999999999 GiB",
        "GPU KV cache size: " + "9," * 500_000 + " tokens",
        "# GPU blocks: 999999999999999999",
        "Available KV cache memory: -1.5 GiB",
        "",
    ],
)
def test_hostile_logs_end_in_an_error(log: str) -> None:
    with pytest.raises(InputError):
        plan(log=log)


@pytest.mark.parametrize(
    "labels",
    [
        {"num_gpu_blocks": "0", "block_size": "16"},
        {"num_gpu_blocks": "None", "block_size": "16"},
        {"num_gpu_blocks": "-5", "block_size": "16"},
        {"num_gpu_blocks": "99999999999999999", "block_size": "16"},
        {"num_gpu_blocks": "1", "block_size": "16", "engines": "2"},
    ],
)
def test_hostile_labels_end_in_an_error(labels: dict[str, str]) -> None:
    with pytest.raises(InputError):
        plan(metrics=_page(**labels))


def test_requests_are_values() -> None:
    request = PlanRequest(geometry=LLAMA, sessions=1, context_tokens=16, hbm_kv_bytes=GIB)
    assert replace(request) == request


def test_power_of_two_rounding_is_a_sawtooth() -> None:
    # Four ranks of 24 tensors (vLLM issue 53042): 200 GiB map 384, 192 and 384 map themselves, 400 map 768.
    pinned = Placement(shared_memory=False, power_of_two=True, regions=96, unit_bytes=1, how="")
    mapped = {size: pinned.host_bytes(size * GIB) // GIB for size in (192, 200, 384, 400)}
    assert mapped == {192: 192, 200: 384, 384: 384, 400: 768}
    assert pinned.tier_within(400 * GIB) == 384 * GIB


def test_two_pools_of_hicache_took_the_size_twice() -> None:
    # SGLang issue 29034: --hicache-size 20 on a hybrid model pinned 40 GB per rank.
    given = {"sessions": 200, "hbm_kv_bytes": 60 * GIB, "tp": 2}
    old = plan(load("qwen3.5-27b"), engine=engine("sglang@0.5.16"), **given)
    new = plan(load("qwen3.5-27b"), engine=engine("sglang@0.5.23"), **given)
    assert old.tier.recommended_bytes == new.tier.recommended_bytes
    assert old.tier.host_memory_bytes == 2 * new.tier.host_memory_bytes
    assert any("twice the host memory" in c for c in old.tier.conversions)
    plain = plan(engine=engine("sglang@0.5.16"), **given)
    assert plain.tier.host_memory_bytes == pytest.approx(plain.tier.recommended_bytes, rel=0.01)
