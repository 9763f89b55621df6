"""Verdicts on simulated servers: two LRU pools, the lower one inclusive, whose every hit, store and load is known.

The simulation is the oracle: what the right answer is follows from the hits of the device, of the tier, and of a
cache without bounds, not from any counter. Where counters cannot tell (a tier of unknown size that was never asked
for anything that it had), no answer is demanded.
"""

import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import pytest

from warmset.meters import judge, meters, scrape, window
from warmset.meters.baseline import of
from warmset.meters.meters import Meters
from warmset.servers import engine

BLOCK, BYTES = 16, 1000  # tokens per block, bytes per token
INFO = 'block_size="16",num_gpu_blocks="{}",enable_prefix_caching="True",cache_dtype="auto"'
FAST, SLOW = 10e9, 1e6  # bytes per second of loads: far above and far below the break-even


class Lru:
    def __init__(self, blocks: int) -> None:
        self.blocks, self.held = blocks, OrderedDict[Hashable, None]()

    def touch(self, block: Hashable) -> None:
        if self.blocks:
            self.held.pop(block, None)
            if len(self.held) >= self.blocks:
                self.held.popitem(last=False)
            self.held[block] = None


@dataclass
class Run:
    """Everything that a server counted, and what it observed of each request."""

    counts: Counter[str] = field(default_factory=Counter)
    ttft: list[float] = field(default_factory=list)
    prefill: list[float] = field(default_factory=list)
    prompts: list[int] = field(default_factory=list)
    repeated: int = 0

    def share(self, name: str) -> float:
        return self.counts[name] / self.counts["prompt"]


def serve(requests: list[list[Hashable]], device: int, tier: int, speed: float) -> Run:
    pool, host, seen, run = Lru(device), Lru(tier), set(), Run()
    for blocks in requests:
        most = len(blocks) - 1  # the last token is always computed
        hits = _prefix(blocks, pool.held, 0, most)
        found = _prefix(blocks, host.held, hits, most) - hits
        run.repeated += BLOCK * _prefix(blocks, seen, 0, most)
        seen.update(blocks)
        stored = sum(block not in host.held for block in blocks) if tier else 0
        for block in reversed(blocks):
            pool.touch(block)
            host.touch(block)
        prompt, had, came = BLOCK * len(blocks), BLOCK * hits, BLOCK * found
        computed = prompt - had - came
        load = came * BYTES / speed
        prefill = 0.01 + computed * 1e-4 + computed * (had + came + computed / 2) * 1e-8
        run.counts.update(prompt=prompt, device=had, external=came, computed=computed, stored=stored * BLOCK)
        run.counts["load_seconds"] += load  # type: ignore[assignment]
        run.ttft.append(prefill + load)
        run.prefill.append(prefill)
        run.prompts.append(prompt)
    return run


def _prefix(blocks: list[Hashable], held: object, start: int, end: int) -> int:
    while start < end and blocks[start] in held:  # type: ignore[operator]
        start += 1
    return start


def traffic(rng: random.Random, kind: str) -> list[list[Hashable]]:
    """Conversations that grow: in turn, at random, one after the other; or prompts that come once."""
    once = kind in ("once", "preamble")
    shared = [("shared", i) for i in range(rng.choice((1, 5, 20)) if kind == "preamble" else 0)]
    sessions, turns = (rng.randint(60, 200), 1) if once else (rng.choice((15, 40, 100)), rng.randint(3, 8))
    order = [s for s in range(sessions) for _ in range(turns)]
    if kind == "in turn":
        order = [s for _ in range(turns) for s in range(sessions)]
    elif kind == "at random":
        rng.shuffle(order)
    grown: dict[int, list[Hashable]] = {s: list(shared) for s in range(sessions)}
    requests = []
    for s in order:
        text = grown[s]
        text.extend((s, len(text) + i) for i in range(rng.randint(3, 20)))
        requests.append(list(text))
    return requests


def page(whole_page: Callable[..., str], version: str, run: Run, device: int, tier: int) -> str:
    c = run.counts
    values = {
        "vllm:prompt_tokens_total": c["prompt"],
        "vllm:prefix_cache_hits_total": c["device"],
        "vllm:prefix_cache_queries_total": c["prompt"],
        "vllm:external_prefix_cache_queries_total": (c["prompt"] - c["device"]) * bool(tier),
        "vllm:external_prefix_cache_hits_total": c["external"],
        'vllm:prompt_tokens_by_source_total{source="local_compute"}': c["computed"],
        'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}': c["device"],
        'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}': c["external"],
    }
    if tier:
        values |= {
            'vllm:kv_offload_total_bytes_total{transfer_type="GPU_to_CPU"}': c["stored"] * BYTES,
            'vllm:kv_offload_total_bytes_total{transfer_type="CPU_to_GPU"}': c["external"] * BYTES,
            'vllm:kv_offload_total_time_total{transfer_type="CPU_to_GPU"}': c["load_seconds"],
            "vllm:kv_offload_store_bytes_total": c["stored"] * BYTES,
            "vllm:kv_offload_load_bytes_total": c["external"] * BYTES,
            "vllm:kv_offload_load_time_total": c["load_seconds"],
        }
        tokens = f'cpu_num_chunks="{tier}",cpu_blocks_per_chunk="1",cpu_kv_cache_size_tokens="{tier * BLOCK}"'
        values[f"vllm:kv_offload_config_info{{{tokens}}}"] = 1
    known = {m.name for m in engine(version).metrics()}
    values = {k: v for k, v in values.items() if k.partition("{")[0] in known}
    observed = {
        "time_to_first_token_seconds": run.ttft,
        "request_prefill_time_seconds": run.prefill,
        "request_prompt_tokens": run.prompts,
    }
    return whole_page(version, values, observed, info=INFO.format(device))


def measured(text: str, tier_bytes: float | None = None) -> Meters:
    return meters(window(None, scrape(text)), tier_bytes=tier_bytes)


@pytest.mark.parametrize("seed", range(60))
def test_alone(whole_page: Callable[..., str], seed: int) -> None:
    rng = random.Random(seed)
    kind = rng.choice(("in turn", "at random", "one by one", "once", "preamble"))
    device = rng.choice((200, 500, 1000))
    tier = int(device * rng.choice((0.3, 0.9, 1, 1.5, 3, 8)))
    speed = rng.choice((FAST, SLOW))
    version = rng.choice(("vllm@0.20", "vllm@0.24", "vllm@0.28", "vllm@0.32", "vllm@0.33"))
    run = serve(traffic(rng, kind), device, tier, speed)
    told = version == "vllm@0.33" or rng.random() < 0.5
    text = page(whole_page, version, run, device, tier)
    verdict = judge(measured(text, tier * BLOCK * BYTES if told and version != "vllm@0.33" else None))
    had, came, repeated = run.share("device"), run.share("external"), run.repeated / run.counts["prompt"]
    where = f"{kind} {version} {device=} {tier=} {had=:.3f} {came=:.3f} {repeated=:.3f}: {verdict.summary}"
    if repeated < 0.01:
        assert verdict.name == "no_reuse", where
    elif came >= 0.05:
        assert verdict.name == ("helping" if speed == FAST else "hurting"), where
    elif told and tier <= device and had > 0.05:
        assert (came, verdict.name) == (0, "tier_too_small"), where
    elif came == 0:
        # The reuse is the device's, or out of the tier's reach: nothing that helps or hurts.
        assert verdict.name in ("no_reuse", "tier_too_small", "not_needed", "thrashing"), where


@pytest.mark.parametrize("seed", range(60))
def test_against_the_same_requests_without_the_tier(whole_page: Callable[..., str], seed: int) -> None:
    rng = random.Random(seed)
    requests = traffic(rng, rng.choice(("in turn", "at random")))
    device = rng.choice((200, 500))
    tier, speed = int(device * rng.choice((1.5, 3, 8))), rng.choice((FAST, SLOW))
    version = rng.choice(("vllm@0.20", "vllm@0.24", "vllm@0.32", "vllm@0.33"))
    off, on = serve(requests, device, 0, FAST), serve(requests, device, tier, speed)
    before = measured(page(whole_page, version, off, device, 0))
    assert judge(before).name == "no_tier"
    verdict = judge(measured(page(whole_page, version, on, device, tier)), of(before, {}))
    where = f"{version} {on.share('external'):.3f} {sum(on.ttft) / sum(off.ttft):.2f}: {verdict.summary}"
    assert not verdict.traffic_changes, where
    if on.share("external") >= 0.05:
        if sum(on.ttft) < 0.9 * sum(off.ttft):
            assert verdict.name == "helping", where
        elif sum(on.ttft) > 1.3 * sum(off.ttft):
            assert verdict.name == "hurting", where
    else:
        assert verdict.name not in ("hurting", "inert", "undecided"), where
