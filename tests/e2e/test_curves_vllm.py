"""ARC and LRU against vLLM's own host-tier manager and policy classes, request by request."""

import random

import pytest

from small_trace import small_trace
from warmset.curves.policies import simulate
from warmset.traces import Trace

pytestmark = pytest.mark.e2e

pytest.importorskip("torch")
pytest.importorskip("warmset.vllm.startup")
base = pytest.importorskip("vllm.v1.kv_offload.base")
manager = pytest.importorskip("vllm.v1.kv_offload.cpu.manager")


def random_trace(seed: int, requests: int = 400, longest: int = 12) -> Trace:
    """Paths in a random tree; popular branches, growing sessions, and one-time requests."""
    rng = random.Random(seed)
    ids: dict[tuple[int, ...], int] = {}
    prompts: list[list[int]] = []
    for number in range(requests):
        kind = rng.random()
        if kind < 0.3:
            path = [10**6 + number] + [0] * rng.randrange(longest)
        else:
            path = [min(int(rng.expovariate(0.4)), 30) for _ in range(rng.randint(1, longest))]
        prompts.append([ids.setdefault(tuple(path[: d + 1]), len(ids)) for d in range(len(path))])
    return small_trace(prompts)


def vllm_hit_blocks(trace: Trace, policy: str, capacity: int) -> int:
    """Leading hits, with the whole prompt offered once, as a prefill of one step does."""
    tier = manager.CPUOffloadingManager(num_chunks=capacity, cache_policy=policy)
    hits = 0
    for r in range(trace.requests):
        blocks = trace.block_ids[trace.offsets[r] : trace.offsets[r + 1]].tolist()
        keys = [base.make_offload_key(block.to_bytes(8, "big"), 0) for block in blocks]
        context = base.ReqContext(req_id=str(r))
        for position, key in enumerate(keys):
            context.set_offload_key_position(key, position)
        tier.on_new_request(context)
        leading = []
        for key in keys:
            if tier.lookup(key, context) is not base.LookupResult.HIT:
                break
            leading.append(key)
        hits += len(leading)
        if leading:
            tier.prepare_load(leading, context)
            tier.complete_load(leading, context)
        stored = tier.prepare_store(keys, context)
        if stored is not None:
            tier.complete_store(stored.keys_to_store, context)
        tier.on_request_finished(context)
    return hits


@pytest.mark.parametrize("policy", ["lru", "arc"])
@pytest.mark.parametrize("seed", range(8))
def test_hits_equal_those_of_vllms_own_classes(policy: str, seed: int) -> None:
    trace = random_trace(seed)
    capacities = [12, 20, 50, 150, 400]
    ours = simulate(trace, policy, capacities, weight="blocks")
    assert ours == [vllm_hit_blocks(trace, policy, capacity) for capacity in capacities]


@pytest.mark.parametrize("seed", range(4))
def test_below_the_longest_request_the_lru_is_not_vllms(seed: int) -> None:
    """What the notes of `warmset curve` warn of: vLLM stores nothing where a plain LRU keeps the head."""
    trace = random_trace(seed)
    assert simulate(trace, "lru", [3], weight="blocks") != [vllm_hit_blocks(trace, "lru", 3)]


@pytest.mark.parametrize("seed", range(4))
def test_requests_larger_than_the_tier_store_nothing_under_arc(seed: int) -> None:
    trace = random_trace(seed)
    capacities = [1, 3, 7]
    ours = simulate(trace, "arc", capacities, weight="blocks")
    assert ours == [vllm_hit_blocks(trace, "arc", capacity) for capacity in capacities]
