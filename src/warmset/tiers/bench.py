"""Measures a store at one block size, and compares loading with recomputing."""

import os
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from warmset.tiers.buffers import BufferPool
from warmset.tiers.store import Store


@dataclass(frozen=True, slots=True)
class Timing:
    """One kind of operation: payload bytes per second over the whole run, and the latency of single calls."""

    calls: int
    bytes_per_second: float
    p50_seconds: float
    p99_seconds: float


@dataclass(frozen=True, slots=True)
class StoreBench:
    """What a store does with `objects` objects of `block_bytes`, `concurrency` at a time."""

    block_bytes: int
    objects: int
    concurrency: int
    put: Timing
    get: Timing
    exists: Timing
    missing: Timing


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Whether loading beats recomputing.

    Attributes:
        load_tokens_per_second: at the measured throughput, for long prefixes.
        prefill_tokens_per_second: what the accelerator recomputes, as given or estimated.
        ratio: load speed over prefill speed; above 1 loading wins for long prefixes.
        break_even_tokens: the shortest prefix for which loading wins; None if it never does.
    """

    load_tokens_per_second: float
    prefill_tokens_per_second: float
    ratio: float
    break_even_tokens: int | None


def bench(
    store: Store,
    *,
    block_bytes: int,
    objects: int = 64,
    concurrency: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> StoreBench:
    """Put, look up and get `objects` random objects under a key of their own, and delete them whatever happens.

    The numbers are what a client in this place sees, caches included: with direct I/O the page cache is not in the
    way, an object store may well answer from its own.
    """
    calls = concurrency or min(16, store.properties.requests_in_flight)
    folder = f"warmset-bench-{secrets.token_hex(6)}"
    keys = [f"{folder}/{i % 16:x}/{i}" for i in range(objects)]
    pool = BufferPool()
    # Random bytes, made once: compressible data would flatter a store that compresses.
    noise = os.urandom(min(block_bytes, 1 << 20))

    def put(key: str) -> None:
        with pool.lend(block_bytes) as buffer:
            for start in range(0, block_bytes, len(noise)):
                count = min(len(noise), block_bytes - start)
                buffer[start : start + count] = noise[:count]
            tag = key.encode()[:block_bytes]
            buffer[: len(tag)] = tag
            begin = time.perf_counter()
            store.put(key, buffer[:block_bytes])
        return_times.append(time.perf_counter() - begin)

    def get(key: str) -> None:
        with pool.lend(block_bytes) as buffer:
            begin = time.perf_counter()
            store.get(key, buffer)
            return_times.append(time.perf_counter() - begin)

    def exists(key: str) -> None:
        begin = time.perf_counter()
        store.exists([key])
        return_times.append(time.perf_counter() - begin)

    return_times: list[float] = []

    def timed(step: str, action: Callable[[str], None], names: list[str], size_bytes: int) -> Timing:
        progress(step)
        return_times.clear()
        begin = time.perf_counter()
        with ThreadPoolExecutor(calls, "warmset-bench") as threads:
            list(threads.map(action, names))
        took = time.perf_counter() - begin
        ordered = sorted(return_times)
        return Timing(
            len(ordered),
            size_bytes * len(ordered) / took,
            ordered[len(ordered) // 2],
            ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        )

    try:
        # The first call of each kind pays for imports and fresh buffers, which no later one does.
        for action in (put, get, exists):
            action(keys[0])
        put_timing = timed("put", put, keys, block_bytes)
        exists_timing = timed("exists", exists, keys, 0)
        missing_timing = timed("missing", exists, [f"{key}-missing" for key in keys], 0)
        get_timing = timed("get", get, keys, block_bytes)
    finally:
        progress("clean up")
        store.delete(keys)
    return StoreBench(block_bytes, objects, calls, put_timing, get_timing, exists_timing, missing_timing)


def break_even(
    measured: StoreBench, *, bytes_per_token: float, prefill_tokens_per_second: float
) -> BreakEven:
    """Compare the measured loads with prefill.

    A prefix of n tokens loads in latency + n × bytes_per_token / throughput and recomputes in n / prefill speed; the
    latency is one lookup and one load. Loading wins from the n on where the two are equal.
    """
    load_tokens_per_second = measured.get.bytes_per_second / bytes_per_token
    gain_seconds_per_token = 1 / prefill_tokens_per_second - 1 / load_tokens_per_second
    latency_seconds = measured.exists.p50_seconds + measured.get.p50_seconds
    return BreakEven(
        load_tokens_per_second,
        prefill_tokens_per_second,
        load_tokens_per_second / prefill_tokens_per_second,
        int(latency_seconds / gain_seconds_per_token) + 1 if gain_seconds_per_token > 0 else None,
    )
