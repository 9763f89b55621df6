"""Curves and policies against naive simulations that share no code with them."""

from collections import OrderedDict
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from small_trace import small_trace
from warmset.curves.exact import lru_curve
from warmset.curves.policies import simulate
from warmset.curves.policies.simulate import access_tokens
from warmset.curves.sampled import sampled_curve
from warmset.traces import Trace

BLOCK = 16


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Prefix-chained traffic: every request follows a path in a random tree of blocks, and may end anywhere."""
    branching = draw(st.integers(1, 3))
    paths = draw(st.lists(st.lists(st.integers(0, branching - 1), max_size=8), min_size=1, max_size=40))
    ids: dict[tuple[int, ...], int] = {}
    requests, tokens = [], []
    for path in paths:
        requests.append([ids.setdefault(tuple(path[:depth]), len(ids)) for depth in range(1, len(path) + 1)])
        # Full, with a partial last block, or with prompt tokens that no block covers.
        tokens.append(max(0, BLOCK * len(path) + draw(st.integers(-BLOCK + 1, BLOCK))))
    if not ids:
        requests[0], tokens[0] = [0], BLOCK
    trace = small_trace(requests, BLOCK, tokens)
    if draw(st.booleans()):
        sizes = draw(st.lists(st.integers(0, BLOCK), min_size=trace.accesses, max_size=trace.accesses))
        trace = replace(trace, tokens_per_block=np.array(sizes, dtype=np.int32))
    return trace


def chains(trace: Trace) -> list[tuple[list[int], list[int]]]:
    tokens = access_tokens(trace)
    cut = [slice(a, b) for a, b in zip(trace.offsets[:-1], trace.offsets[1:], strict=True)]
    return [(trace.block_ids[c].tolist(), tokens[c].tolist()) for c in cut]


def naive_prefix_lru(trace: Trace, capacity: int, warmup: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for r, (ids, tokens) in enumerate(chains(trace)):
        for block, size in zip(ids, tokens, strict=True):
            if block not in cache:
                break
            hits += size * (r >= warmup)
        for block in reversed(ids):
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits


def naive_plain_lru(trace: Trace, capacity: int, warmup: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for r, (ids, tokens) in enumerate(chains(trace)):
        for block, size in zip(ids, tokens, strict=True):
            hits += size * (block in cache and r >= warmup)
            cache[block] = None
            cache.move_to_end(block)
            if len(cache) > capacity:
                cache.popitem(last=False)
    return hits


def naive_lfu(trace: Trace, capacity: int) -> int:
    count: dict[int, int] = {}
    touched: dict[int, int] = {}
    clock = hits = 0
    for ids, tokens in chains(trace):
        for block, size in zip(ids, tokens, strict=True):
            if block not in count:
                break
            hits += size
        keep = ids[:capacity]
        others = sorted((b for b in count if b not in ids), key=lambda b: (count[b], touched[b]))
        out = others[: max(0, len(others) + len(keep) - capacity)] + [b for b in ids if b not in keep]
        for block in out:
            count.pop(block, None)
        for block in reversed(keep):
            clock += 1
            touched[block] = clock
            count[block] = count.get(block, 0) + 1
    return hits


@settings(deadline=None, max_examples=150)
@given(traces(), st.sampled_from([0.0, 0.3, 0.5]))
def test_the_curve_is_a_stack_simulation_at_every_capacity(trace: Trace, warmup: float) -> None:
    skip = int(trace.requests * warmup)
    prefix = lru_curve(trace, warmup_ratio=warmup)
    plain = lru_curve(trace, order="head-first", warmup_ratio=warmup)
    for capacity in range(1, trace.unique_blocks + 2):
        assert prefix.hit_tokens_at(capacity) == naive_prefix_lru(trace, capacity, skip)
        assert plain.hit_tokens_at(capacity) == naive_plain_lru(trace, capacity, skip)
    assert prefix.total_tokens == int(access_tokens(trace)[trace.offsets[skip] :].sum())


@settings(deadline=None, max_examples=100)
@given(traces())
def test_counting_blocks_is_counting_tokens_of_size_one(trace: Trace) -> None:
    ones = replace(trace, tokens_per_block=np.ones(trace.accesses, dtype=np.int32))
    for order in ("tail-first", "head-first"):
        blocks = lru_curve(trace, order=order, weight="blocks")
        assert np.array_equal(
            blocks.cumulative_hit_tokens, lru_curve(ones, order=order).cumulative_hit_tokens
        )


@settings(deadline=None, max_examples=100)
@given(traces(), st.integers(0, 5))
def test_a_sample_of_everything_is_the_exact_curve(trace: Trace, seed: int) -> None:
    sampled, exact = sampled_curve(trace, ratio=1.0, seed=seed), lru_curve(trace)
    for capacity in range(trace.unique_blocks + 2):
        assert sampled.hit_tokens_at(capacity) == exact.hit_tokens_at(capacity)


@settings(deadline=None, max_examples=100)
@given(traces(), st.integers(1, 12))
def test_policies_are_what_they_say(trace: Trace, capacity: int) -> None:
    assert simulate(trace, "lfu", [capacity]) == [naive_lfu(trace, capacity)]
    for policy in ("lru", "fifo", "lfu", "arc"):
        assert simulate(trace, policy, [trace.unique_blocks])[0] <= lru_curve(trace).ceiling_hit_tokens
    assert simulate(trace, "optimal", [trace.unique_blocks])[0] == lru_curve(trace).ceiling_hit_tokens
    even = replace(trace, tokens_per_block=np.ones(trace.accesses, dtype=np.int32))
    best = simulate(even, "optimal", [capacity])[0]
    assert simulate(even, "lru", [capacity])[0] <= best


def best_possible(requests: list[list[int]], capacity: int) -> int:
    """Hit blocks of the best of all caches, by trying every content that is closed under ancestors."""
    parent = {block: above for ids in requests for above, block in pairwise([-1, *ids])}
    contents: dict[frozenset[int], int] = {frozenset(): 0}
    for ids in requests:
        after: dict[frozenset[int], int] = {}
        for content, hits in contents.items():
            hits += next((i for i, block in enumerate(ids) if block not in content), len(ids))
            pool = sorted(content | set(ids))
            for kept in combinations(pool, min(capacity, len(pool))):
                new = frozenset(kept)
                if all(parent[block] in new or parent[block] < 0 for block in new):
                    after[new] = max(after.get(new, 0), hits)
        contents = after
    return max(contents.values())


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=1, max_size=8), st.integers(1, 4)
)
def test_nothing_hits_more_blocks_than_the_clairvoyant_policy(paths: list[list[int]], capacity: int) -> None:
    ids: dict[tuple[int, ...], int] = {}
    requests = [[ids.setdefault(tuple(p[: d + 1]), len(ids)) for d in range(len(p))] for p in paths]
    trace = small_trace(requests, BLOCK)
    assert simulate(trace, "optimal", [capacity], weight="blocks") == [best_possible(requests, capacity)]
