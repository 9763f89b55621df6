"""Curves: speed per core, linear growth, memory, and libCacheSim on the same accesses.

Takes the public agent trace where the reference folder is beside the repository, and traffic of the same
shape (coding-agent sessions that grow turn by turn, eight at a time) otherwise and for other sizes.
"""

import multiprocessing
import struct
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from warmset.curves.exact import lru_curve
from warmset.curves.policies import simulate
from warmset.curves.sampled import sampled_curve
from warmset.traces import Trace, load

AGENT = (
    Path(__file__).resolve().parent.parent.parent
    / "shared"
    / "traces"
    / "agent"
    / "flat_40sess_c8_bs64.jsonl.gz"
)
POINTS = 20
LIBCACHESIM_ACCESSES = 4_000_000


def agent_like(accesses: int, seed: int = 0) -> Trace:
    """Eight sessions at a time, some 50 turns of about 66 new blocks each."""
    rng = np.random.default_rng(seed)
    ids = np.empty(accesses, dtype=np.int32)
    lengths: list[int] = []
    live: list[tuple[np.ndarray, int, int]] = []
    filled = fresh = turn = 0
    while filled < accesses:
        slot = turn % 8
        turn += 1
        if len(live) <= slot:
            live.append((np.empty(0, dtype=np.int32), 0, 0))
        chain, turns, limit = live[slot]
        if turns >= limit:
            chain, turns, limit = np.empty(0, dtype=np.int32), 0, int(rng.integers(20, 90))
        grow = int(rng.integers(20, 112)) if turns else 600
        chain = np.concatenate((chain, np.arange(fresh, fresh + grow, dtype=np.int32)))
        chain = chain[: min(len(chain), accesses - filled)]
        fresh += grow
        live[slot] = (chain, turns + 1, limit)
        ids[filled : filled + len(chain)] = chain
        lengths.append(len(chain))
        filled += len(chain)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    requests = len(lengths)
    return Trace(
        ids, offsets, np.full(requests, np.nan), np.array(lengths, dtype=np.int64) * 64,
        np.full(requests, 200, dtype=np.int64), None, 64, None, int(ids.max()) + 1, "agent-like",
    )  # fmt: skip


def best_seconds(run, repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_bytes(accesses: int) -> float:
    """Peak memory of a process that holds a trace and computes its curve, beyond one that holds nothing."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(accesses, send))
    process.start()
    result = float(receive.recv())
    process.join()
    return result


def _measure(accesses: int, send) -> None:
    lru_curve(agent_like(10_000))
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    base = _status_bytes("VmRSS")
    lru_curve(agent_like(accesses))
    send.send(_status_bytes("VmHWM") - base)


def _status_bytes(field: str) -> int:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
    return 1024 * int(line.split()[1])


def libcachesim_seconds(trace: Trace, capacities: list[int]) -> tuple[float, list[float]]:
    """Seconds for one LRU run per capacity, and the hit ratios; blocks of size 1, head first."""
    import libcachesim as lcs

    with tempfile.NamedTemporaryFile(suffix=".oracleGeneral") as file:
        records = np.zeros(
            trace.accesses, dtype=[("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")]
        )
        assert records.itemsize == struct.calcsize("<IQIq")
        records["id"], records["size"], records["next"] = trace.block_ids, 1, -2
        file.write(records.tobytes())
        file.flush()
        ratios = []
        start = time.perf_counter()
        for capacity in capacities:
            reader = lcs.TraceReader(trace=file.name, trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE)
            misses, _ = lcs.LRU(cache_size=capacity).process_trace(reader)
            ratios.append(1 - misses)
        return time.perf_counter() - start, ratios


def main() -> Iterator[tuple[str, float, str]]:
    """Yield (name, value, unit)."""
    trace = load(f"mooncake:{AGENT}", block_tokens=64) if AGENT.is_file() else agent_like(4_000_000)
    name = "agent trace" if AGENT.is_file() else "agent-like trace"
    started = time.perf_counter()
    lru_curve(agent_like(1000))
    yield "first call (compilation, or reading what was compiled)", time.perf_counter() - started, "s"
    seconds = best_seconds(lambda: lru_curve(trace))
    yield f"exact curve, all capacities, {name}", trace.accesses / seconds / 1e6, "M accesses/s"
    plain = best_seconds(lambda: lru_curve(trace, order="head-first", weight="blocks"))
    yield f"exact curve, head first by blocks, {name}", trace.accesses / plain / 1e6, "M accesses/s"
    sampled_curve(trace, ratio=0.01)
    sampled = best_seconds(lambda: sampled_curve(trace, ratio=0.01))
    yield f"sampled curve at 1 %, {name}", trace.accesses / sampled / 1e6, "M accesses/s"
    exact = lru_curve(trace)
    grid = np.unique(np.geomspace(1000, trace.unique_blocks, 500).astype(int)).tolist()
    errors = []
    for seed in range(10):
        curve = sampled_curve(trace, ratio=0.01, seed=seed)
        errors.append(100 * max(abs(curve.hit_ratio_at(c) - exact.hit_ratio_at(c)) for c in grid))
    yield "sampled at 1 %, 10 seeds: largest error from 1,000 blocks up", max(errors), "points"
    yield "sampled at 1 %, 10 seeds: mean of each seed's largest error", float(np.mean(errors)), "points"
    for policy in ("fifo", "lfu", "arc", "optimal"):
        simulate(trace, policy, [1000])
        one = best_seconds(lambda policy=policy: simulate(trace, policy, [10_000]), 1)
        yield f"policy {policy} at one capacity, {name}", trace.accesses / one / 1e6, "M accesses/s"
    try:
        installed = version("libcachesim")
    except PackageNotFoundError:
        installed = ""
    if installed:
        capacities = np.geomspace(100, trace.unique_blocks, POINTS).astype(int).tolist()
        theirs, ratios = libcachesim_seconds(trace, capacities)
        ours = lru_curve(trace, order="head-first", weight="blocks")
        worst = max(abs(ours.hit_ratio_at(c) - r) for c, r in zip(capacities, ratios, strict=True))
        assert worst < 1e-9, f"libCacheSim and warmset disagree by {worst}"
        yield f"libCacheSim {installed} LRU, {POINTS} capacities", theirs, "s"
        yield f"warmset, all capacities, {name}", seconds, "s"
        yield "times faster", theirs / seconds, "×"
        yield "times faster, on the very same figures (head first)", theirs / plain, "×"
    for accesses in (10**5, 10**6, 10**7, 10**8):
        big = agent_like(accesses)
        seconds = best_seconds(lambda big=big: lru_curve(big), 2)
        yield f"exact curve, agent-like, {accesses:,} accesses", accesses / seconds / 1e6, "M accesses/s"
        del big
    for accesses in (10**7, 10**8):
        yield f"memory per access held, {accesses:,} accesses", peak_bytes(accesses) / accesses, "bytes"
