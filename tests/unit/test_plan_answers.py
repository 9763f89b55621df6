"""What a plan advises can be done with the server that it is for, and the band of an estimate is said on both sides."""

from typing import Any

import pytest

from warmset import api
from warmset.errors import InputError
from warmset.geometry import load
from warmset.launch import Launch
from warmset.plan import Plan
from warmset.servers import engine, inspected
from warmset.units import GIB, MIB

LLAMA: dict[str, Any] = {"sessions": 200, "context_tokens": 8192}


def plan(model: str = "llama-3.1-8b", **given: Any) -> Plan:
    return api.plan(model, **{**LLAMA, **given})


def command(p: Plan) -> str:
    launch = api.launch_for(p, model="a/b")
    assert isinstance(launch, Launch)
    return launch.command


# --- a server that starts


def test_a_command_names_the_longest_context_where_the_models_own_does_not_fit() -> None:
    p = plan(gpu="a10", sessions=10)
    assert p.device.max_context_tokens < 131_072
    assert "--max-model-len 8192 " in command(p)
    assert p.max_model_len == 8192
    assert any("does not start" in n and "131,072" in n and "`--max-model-len 8192`" in n for n in p.notes)
    assert any("not even one session" in n for n in p.notes)


def test_the_longest_context_is_all_that_a_known_pool_holds() -> None:
    p = plan(hbm_kv="12GiB")
    # One block is the server's own.
    assert p.max_model_len == 12 * 8192 - 16
    assert f"--max-model-len {12 * 8192 - 16} " in command(p)
    assert not any("not even one session" in n for n in p.notes)


@pytest.mark.parametrize(
    "given", [{"hbm_kv": "28GiB"}, {"gpu": "h100-80gb"}, {"hbm_kv": "12GiB", "max_model_len": 8192}]
)
def test_a_context_that_fits_is_left_alone(given: dict[str, Any]) -> None:
    p = plan(**given)
    assert p.max_model_len == given.get("max_model_len")
    assert not any("does not start" in n for n in p.notes)


def test_a_longest_context_that_was_named_is_kept_and_held_against_the_pool() -> None:
    p = plan(hbm_kv="12GiB", max_model_len=131_072)
    assert p.max_model_len == 131_072
    assert any("does not start" in n and f"`--max-model-len {12 * 8192 - 16}`" in n for n in p.notes)


def test_the_low_end_of_a_band_may_be_too_small_for_the_models_context() -> None:
    p = plan("qwen3-14b", gpu="l40s", gpu_memory_utilization=0.83)
    model = load("qwen3-14b")
    longest = model.footprint().bytes_per_session(model.max_context_tokens or 0)
    assert p.device.low_bytes < longest < p.device.kv_budget_bytes
    assert p.max_model_len is None
    assert any("does not start" in n and "low estimate" in n and "--max-model-len" in n for n in p.notes)


def test_a_log_says_the_longest_context_of_its_server(tmp_path: Any) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "INFO vLLM API server version 0.26.0\nINFO Available KV cache memory: 28.00 GiB\n"
        "INFO Maximum concurrency for 32,768 tokens per request: 7.00x\n"
    )
    p = plan(log=log)
    assert "--max-model-len 32768 " in command(p)
    assert not any("newest known" in a for a in p.assumptions)
    assert any("the log is that of vLLM 0.26.0" in n for n in p.notes)


def test_sglang_starts_all_the_same() -> None:
    p = plan(hbm_kv="12GiB", engine="sglang@0.5.23")
    assert p.max_model_len is None
    assert "--context-length" not in command(p)
    assert any("SGLang starts all the same" in n and "98,304" in n for n in p.notes)


# --- lower tiers that can be had


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ({"engine": "sglang@0.5.23"}, "--hicache-storage-backend"),
        ({"engine": "vllm@0.20"}, "--engine vllm@0.22.0 --backend native`"),
        ({"engine": "vllm@0.26", "backend": "native+warmset"}, "--backend native+warmset`"),
        ({"engine": "vllm@0.22", "storage": "object-100gbe"}, "--engine vllm@"),
        ({"backend": "lmcache", "storage": "object-100gbe"}, "--disk"),
        ({"backend": "native+disk", "storage": "object-100gbe"}, "--backend native`"),
    ],
)
def test_no_lower_tier_where_the_server_cannot_have_it(given: dict[str, Any], fix: str) -> None:
    p = plan(hbm_kv="28GiB", host_ram="150GiB", **given)
    assert (p.decision.verdict, p.lower_tier) == ("offload", None)
    assert 28 * GIB < p.tier.recommended_bytes < 150 * GIB
    assert any(fix in f for f in p.decision.fixes)
    assert not any("has it since" in n or "below host memory:" in n for n in (*p.notes, *p.assumptions))
    nothing_added = plan(hbm_kv="28GiB", host_ram="28GiB", **given)
    assert (nothing_added.decision.verdict, nothing_added.lower_tier) == ("recompute", None)


@pytest.mark.parametrize(
    ("given", "backend"),
    [
        ({}, "native+disk"),
        ({"storage": "object-100gbe"}, "native+object"),
        ({"backend": "native+warmset", "storage": "object-100gbe"}, "native+warmset"),
        ({"backend": "lmcache"}, "lmcache"),
        ({"engine": "vllm@0.22"}, "native+disk"),
    ],
)
def test_a_lower_tier_that_is_advised_is_in_the_command(given: dict[str, Any], backend: str) -> None:
    p = plan(hbm_kv="28GiB", host_ram="150GiB", **given)
    assert (p.decision.verdict, p.backend) == ("add_lower_tier", backend)
    assert any(word in command(p) for word in ("/kv", "bucket"))


@pytest.mark.parametrize(
    "name",
    [f"{server}@{version}" for server in ("vllm", "sglang") for version in inspected(server)],
)
def test_every_version_can_have_what_it_is_advised(name: str) -> None:
    server = engine(name)
    if server.server == "vllm" and server.connector("OffloadingConnector") is None:
        pytest.skip("no native offloading: refused")
    p = plan(hbm_kv="28GiB", host_ram="150GiB", engine=server)
    below = server.spec("TieringOffloadingSpec") is not None
    assert p.decision.verdict == ("add_lower_tier" if below else "offload")
    assert ("/kv" in command(p)) is below


def test_headroom_alone_asks_for_no_lower_tier() -> None:
    p = plan(gpu="h100-80gb", host_ram="250GiB")
    assert (p.decision.verdict, p.lower_tier) == ("offload", None)
    assert p.tier.recommended_bytes == 225 * GIB
    assert p.tier.sessions == 225
    assert any("12.5 % of headroom instead of 15.0 %" in r for r in p.decision.reasons)
    assert plan(hbm_kv="28GiB", container_limit="206GiB").decision.verdict == "offload"
    assert plan(hbm_kv="28GiB", container_limit="205GiB").decision.verdict == "add_lower_tier"


def test_rounding_is_that_of_what_is_launched() -> None:
    p = plan(gpu="h100-80gb", engine="vllm@0.25", container_limit="260GiB")
    assert "TieringOffloadingSpec" in command(p)
    assert p.tier.recommended_bytes == p.tier.host_memory_bytes == p.tier.dev_shm_bytes == 230 * GIB
    assert not any("power of two" in text for text in (*p.notes, *p.decision.reasons))
    assert not any("holds the rest" in r for r in p.decision.reasons)
    launch = api.launch_for(p)
    assert launch is not None
    assert launch.host_memory_bytes == p.tier.host_memory_bytes
    # The host tier alone is pinned, and rounded.
    alone = plan(gpu="h100-80gb", engine="vllm@0.25", container_limit="270GiB")
    assert (alone.backend, alone.tier.host_memory_bytes) == ("native", 256 * GIB)


# --- the server's own words


@pytest.mark.parametrize(
    ("name", "context", "dtype", "memory", "foreign"),
    [
        ("vllm@0.32", "--max-model-len 4784", "fp8", "--gpu-memory-utilization", "--context-length"),
        ("sglang@0.5.23", "--context-length 4800", "fp8_e4m3", "--mem-fraction-static", "--max-model-len"),
    ],
)
def test_fixes_name_the_servers_own_flags(
    name: str, context: str, dtype: str, memory: str, foreign: str
) -> None:
    fixes = plan(hbm_kv="600MiB", engine=name).decision.fixes
    assert [
        f"`{word}`" in fix
        for word, fix in zip((context, f"--kv-cache-dtype {dtype}", memory), fixes, strict=True)
    ] == [True] * 3
    assert not any(foreign in fix for fix in fixes)


def test_a_smaller_type_alone_does_not_start_a_server() -> None:
    # fp8 makes room for the session, and not for the model's own 131,072 tokens.
    fixes = plan(hbm_kv="600MiB").decision.fixes
    assert "beside `--max-model-len 8192`" in fixes[1]
    assert "beside" not in plan(hbm_kv="600MiB", engine="sglang").decision.fixes[1]
    assert "beside" not in plan(hbm_kv="600MiB", max_model_len=8192).decision.fixes[1]


def test_unified_memory_names_the_servers_own_flags() -> None:
    for name, flags in (
        ("vllm@0.32", "`--gpu-memory-utilization`, `--kv-cache-memory-bytes`"),
        ("sglang@0.5.23", "`--mem-fraction-static`, `--max-total-tokens`"),
    ):
        p = plan(gpu="gb10", sessions=2000, engine=name)
        assert p.decision.verdict == "recompute"
        assert flags in p.decision.fixes[0]


@pytest.mark.parametrize(("name", "word"), [("vllm", "vLLM refuses"), ("sglang", "SGLang refuses")])
def test_who_refuses_a_longer_context(name: str, word: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(hbm_kv="28GiB", context_tokens=200_000, engine=name)
    assert word in (caught.value.hint or "")
    assert "200,000" in caught.value.message


def test_more_devices_are_as_many_as_the_model_can_be_spread_over() -> None:
    p = plan("qwen2.5-7b", gpu="a10", sessions=1, tp=4, context_tokens=32_768, gpu_memory_utilization=0.1)
    assert p.decision.verdict == "does_not_fit"
    assert not any("`--tp 8`" in f for f in p.decision.fixes)


def test_devices_that_a_model_cannot_be_spread_over() -> None:
    with pytest.raises(InputError) as caught:
        plan("qwen2.5-7b", gpu="h100-80gb", gpus=8)
    assert "`--gpus 8`" in caught.value.message
    assert "28 attention heads" in caught.value.message
    assert "`--tp 4 --dp 2`" in (caught.value.hint or "")
    assert plan("qwen2.5-7b", gpu="h100-80gb", gpus=8, tp=4, dp=2).tp == 4


# --- estimates


def test_sglangs_static_share_holds_weights_and_kv_cache_alone() -> None:
    """`_profile_available_bytes`: what is free after loading − what was free before × (1 − mem_fraction_static)."""
    p = plan(gpu="h100-80gb", engine="sglang@0.5.23", gpu_memory_utilization=0.88)
    terms = dict(p.device.terms)
    before = terms["memory"] + terms["context and communication"]
    after = before + terms["weights"]
    assert p.device.kv_budget_bytes == pytest.approx(after - before * (1 - 0.88), abs=MIB)
    assert p.device.low_bytes < p.device.kv_budget_bytes < p.device.high_bytes
    # vLLM's share has to hold activations and graphs, too.
    vllm = plan(gpu="h100-80gb", engine="vllm@0.32", gpu_memory_utilization=0.88)
    assert p.device.kv_budget_bytes > vllm.device.kv_budget_bytes


@pytest.mark.parametrize(
    ("gpu", "tp", "share"),
    # What server_args.py computes: 13,440 MiB kept of 81,559, 14,848 with eight ranks, 3,760 of an A10's 23,028.
    [("h100-80gb", 1, 0.835), ("h100-80gb", 8, 0.818), ("a10", 1, 0.837)],
)
def test_sglangs_default_share_follows_the_device(gpu: str, tp: int, share: float) -> None:
    p = plan(gpu=gpu, tp=tp, engine="sglang@0.5.23")
    assert any(f"× {share:g} of memory for weights and KV cache" in a for a in p.assumptions)
    assert p.device.low_bytes < p.device.kv_budget_bytes < p.device.high_bytes


def test_an_offload_that_the_high_estimate_does_not_need_says_so() -> None:
    p = plan(gpu="h100-80gb", sessions=56)
    assert p.decision.verdict == "offload"
    assert p.device.kv_budget_bytes < p.demand.device_bytes < p.device.high_bytes
    assert any("high estimate" in r and "the warm set would fit" in r for r in p.decision.reasons)
    assert not any("high estimate" in r for r in plan(gpu="h100-80gb").decision.reasons)
    assert not any("high estimate" in r for r in plan(hbm_kv="28GiB").decision.reasons)


def test_a_session_that_the_high_estimate_holds_is_said_to_fit_it() -> None:
    p = plan(gpu="a10", sessions=1, context_tokens=32_768)
    assert p.decision.verdict == "does_not_fit"
    assert p.device.kv_budget_bytes < p.demand.device_bytes_per_session < p.device.high_bytes
    assert any("high estimate" in r and "one session would fit" in r for r in p.decision.reasons)
    assert not any("high estimate" in r for r in plan(gpu="a10", context_tokens=131_072).decision.reasons)
