"""Plans over many inputs: monotone in demand, never a tier that adds nothing, sizes that add up."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from warmset.errors import InputError
from warmset.geometry import load, uniform
from warmset.plan import Plan, PlanRequest, make_plan
from warmset.servers import engine
from warmset.units import GIB

QUICK = settings(deadline=None, max_examples=60)
GEOMETRIES = [
    uniform(32, 8, 128),
    uniform(2, 1, 64),
    *(load(n) for n in ("deepseek-v3", "gemma-3-27b", "gpt-oss-20b", "mistral-7b-v0.1")),
]
ENGINES = [engine(e) for e in ("vllm@0.16", "vllm@0.25", "vllm@0.32", "sglang")]


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    server = draw(st.sampled_from(ENGINES))
    asked: dict[str, Any] = {
        "geometry": draw(st.sampled_from(GEOMETRIES)),
        "sessions": draw(st.integers(1, 20_000)),
        "context_tokens": draw(st.integers(1, 8192)),
        "hbm_kv_bytes": draw(st.integers(1, 2000 * GIB)),
        "tp": draw(st.sampled_from([1, 2, 8])),
        "engine": server,
        "headroom_ratio": draw(st.sampled_from([0.0, 0.15, 0.5])),
        "host_ram_bytes": draw(st.none() | st.integers(GIB, 4000 * GIB)),
        "prefill_tokens_per_second": draw(st.none() | st.floats(1.0, 1e6)),
        "load_bytes_per_second": draw(st.none() | st.floats(1e8, 1e12)),
        "dp": draw(st.sampled_from([1, 2])),
        "pp": draw(st.sampled_from([1, 1, 3])),
    }
    if server.server == "vllm":
        asked["backend"] = draw(st.sampled_from(["native", "lmcache"]))
    return asked


def answer(asked: dict[str, Any]) -> Plan | None:
    """The plan, or None where the deployment is refused."""
    try:
        return make_plan(PlanRequest(**asked))
    except InputError:
        return None


@QUICK
@given(questions())
def test_a_recommended_inclusive_tier_holds_more_than_the_device(asked: dict[str, Any]) -> None:
    plan = answer(asked)
    if plan is None:
        return
    tier = plan.tier
    if tier.recommended_bytes and tier.inclusion == "inclusive":
        # In sessions, which is the same for a tier that keeps one of several copies.
        stored = tier.warm_set_bytes / plan.demand.sessions
        on_device = plan.device.kv_budget_bytes / plan.demand.device_bytes_per_session
        assert tier.recommended_bytes / stored > on_device * 0.999
    if plan.decision.verdict in ("leave_off", "recompute", "does_not_fit"):
        assert tier.recommended_bytes == tier.host_memory_bytes == 0
    short = plan.demand.sessions - plan.device.sessions
    if plan.decision.verdict == "leave_off":
        assert plan.demand.device_bytes <= plan.device.kv_budget_bytes
        # Only the server's own block may keep the last session out, and then the answer says so.
        own = any("keeps one block" in reason for reason in plan.decision.reasons)
        assert (short == 1 and plan.device.reserved_bytes > 0) if own else short <= 0
    else:
        assert short > 0
    if plan.decision.verdict == "offload":
        assert tier.recommended_bytes > 0


@QUICK
@given(questions(), st.integers(0, 20_000))
def test_more_sessions_never_shrink_the_tier(asked: dict[str, Any], more: int) -> None:
    few, many = answer(asked), answer({**asked, "sessions": asked["sessions"] + more})
    assert (few is None) == (many is None)
    if few is None or many is None:
        return
    assert many.demand.warm_set_bytes >= few.demand.warm_set_bytes
    assert many.tier.inclusive_bytes >= few.tier.inclusive_bytes
    assert many.tier.exclusive_bytes >= few.tier.exclusive_bytes
    assert many.tier.recommended_bytes >= few.tier.recommended_bytes
    assert many.device == few.device


@QUICK
@given(questions())
def test_sizes_add_up(asked: dict[str, Any]) -> None:
    plan = answer(asked)
    if plan is None:
        return
    tier = plan.tier
    said = (*plan.decision.reasons, *plan.decision.fixes, *plan.notes, *plan.assumptions, *tier.conversions)
    assert not [words for words in said if " 0.0 GiB" in f" {words}"]
    assert tier.exclusive_bytes <= tier.inclusive_bytes
    assert tier.inclusive_bytes >= tier.warm_set_bytes
    assert tier.allocated_bytes <= max(tier.host_memory_bytes, tier.recommended_bytes)
    assert tier.per_rank_bytes * plan.ranks >= tier.recommended_bytes
    assert plan.fleet.tier_bytes == plan.dp * tier.recommended_bytes
    if plan.host.available_bytes is not None:
        assert tier.host_memory_bytes <= plan.host.available_bytes
    assert tier.dev_shm_bytes in (0, tier.host_memory_bytes)


@QUICK
@given(st.integers(1, 4096), st.integers(1, 8192), st.integers(1, 500))
def test_uniform_models_follow_the_two_rules(sessions: int, blocks: int, budget_gib: int) -> None:
    context = 16 * blocks
    plan = make_plan(
        PlanRequest(
            geometry=uniform(32, 8, 128),
            sessions=sessions,
            context_tokens=context,
            hbm_kv_bytes=budget_gib * GIB,
        )
    )
    warm = sessions * context * 131_072
    assert plan.demand.warm_set_bytes == plan.demand.device_bytes == warm
    assert abs(plan.tier.inclusive_bytes - warm * 1.15) <= 1 + warm * 1e-12
    assert abs(plan.tier.exclusive_bytes - max(0, warm - budget_gib * GIB) * 1.15) <= 1 + warm * 1e-12


@QUICK
@given(questions(), st.integers(1, 60), st.integers(-3, 3), st.floats(0, 1), st.floats(0, 1))
def test_what_the_edge_lacks_is_what_it_needs(
    asked: dict[str, Any], sessions: int, blocks: int, part: float, shared: float
) -> None:
    """Within blocks of the budget: the bytes that the answer asks for are those with which the last session fits."""
    asked |= {"sessions": sessions, "shared_prefix_tokens": int(shared * asked["context_tokens"])}
    ample = answer({**asked, "hbm_kv_bytes": 2**50})
    if ample is None:
        return
    block = ample.device.bytes_per_block
    budget = max(1, ample.demand.device_bytes + blocks * block + int(part * block))
    plan = answer({**asked, "hbm_kv_bytes": budget})
    assert plan is not None
    own = any("more on the device would hold" in reason for reason in plan.decision.reasons)
    assert own == (plan.decision.verdict == "leave_off" and plan.device.sessions < sessions)
    if own:
        # A byte for each rank: their shares are whole.
        lacks = block - budget % block + plan.ranks
        full = answer({**asked, "hbm_kv_bytes": budget + lacks})
        assert full is not None
        assert full.device.sessions >= sessions
