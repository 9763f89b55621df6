"""Many requests through device, RAM and an object store that fails at random, on a real vLLM.

WARMSET_SOAK_REQUESTS is how many (10,000), WARMSET_SOAK_SEED decides prompts and faults, WARMSET_SOAK_REPORT names a
file for what was seen.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from e2e import faulty_s3 as s3
from e2e.processes import held_by, left_in_shared_memory, processes_of
from e2e.tiered import transfer_config
from warmset.lab.model import ModelShape, write_model
from warmset.lab.server import Running, VllmServer, running

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(5400)]
pytest.importorskip("vllm")
pytest.importorskip("obstore")


REQUESTS = int(os.environ.get("WARMSET_SOAK_REQUESTS", "10000"))
SEED = int(os.environ.get("WARMSET_SOAK_SEED", "7"))
CONCURRENCY = 8
PROMPTS, BLOCK_TOKENS, PROMPT_BLOCKS, OUTPUT_TOKENS = 400, 32, 4, 3
DEADLINE_SECONDS = 2.0
# The tier leaves a store alone for ten seconds after a fault: it must have time to use it again.
HEALTHY_SECONDS, FAULTY_SECONDS = 12.0, 4.0
PACE_SECONDS = 0.035
FAULTS = (
    "500", "throttled", "credentials", "killed", "stopped", "slow", "cut", "flipped", "SIGSTOP", "restart",
)  # fmt: skip
SHAPE = ModelShape(layers=2, hidden=128, heads=4, kv_heads=2, head_dim=32, intermediate=256, vocabulary=1024)


def _prompt(number: int) -> list[int]:
    tokens = Random(f"{SEED} {number}")
    return [tokens.randrange(5, 1000) for _ in range(PROMPT_BLOCKS * BLOCK_TOKENS + 5)]


@contextmanager
def _serve(model: Path, tmp_path: Path, name: str, transfer: dict[str, Any] | None) -> Iterator[Running]:
    blocks = CONCURRENCY * (PROMPT_BLOCKS + 1) + 8
    server = VllmServer(
        python=sys.executable,
        model=model,
        device_blocks=blocks,
        block_tokens=BLOCK_TOKENS,
        kv_cache_bytes=blocks * SHAPE.kv_bytes_per_block(BLOCK_TOKENS),
        max_context_tokens=(PROMPT_BLOCKS + 1) * BLOCK_TOKENS,
        concurrency=CONCURRENCY,
        transfer=transfer,
        environment={"XDG_CACHE_HOME": str(tmp_path / "cache"), **s3.CREDENTIALS},
    )
    with running(server, tmp_path / f"{name}.log") as up:
        yield up


def _tier(endpoint: str) -> dict[str, Any]:
    chunk = SHAPE.kv_bytes_per_block(BLOCK_TOKENS)
    return transfer_config(
        # A tenth of the prompts fit into RAM; all of them into the store, and some more.
        chunk * PROMPT_BLOCKS * PROMPTS // 10,
        f"s3://{s3.BUCKET}/soak",
        endpoint=endpoint,
        capacity_bytes=(chunk + 4096) * PROMPT_BLOCKS * PROMPTS * 3 // 4,
        lookup_deadline_seconds=DEADLINE_SECONDS,
        load_deadline_seconds=DEADLINE_SECONDS,
        store_deadline_seconds=10.0,
    )


@dataclass
class Seen:
    """What clients and the sampler saw; `samples` are (requests ended, what was held)."""

    wrong: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    phases: dict[str, int] = field(default_factory=dict)
    samples: list[tuple[int, dict[str, float]]] = field(default_factory=list)


def _ask(client: httpx.Client, up: Running, number: int) -> tuple[int, ...]:
    body = {
        "model": up.model,
        "prompt": _prompt(number),
        "max_tokens": OUTPUT_TOKENS,
        "min_tokens": OUTPUT_TOKENS,
        "temperature": 0,
        "return_token_ids": True,
    }
    answer = client.post(f"{up.url}/v1/completions", json=body)
    answer.raise_for_status()
    return tuple(answer.json()["choices"][0]["token_ids"])


def _in_parallel(
    up: Running,
    numbers: list[int],
    done: Callable[[int, tuple[int, ...], float], None],
    pace_seconds: float = 0,
) -> None:
    todo, lock, first = iter(enumerate(numbers)), threading.Lock(), time.monotonic()

    def client_loop() -> None:
        with httpx.Client(timeout=120, trust_env=False) as client:
            while True:
                with lock:
                    place, number = next(todo, (0, None))
                if number is None:
                    return
                time.sleep(max(0.0, first + place * pace_seconds - time.monotonic()))
                begin = time.monotonic()
                tokens = _ask(client, up, number)
                with lock:
                    done(number, tokens, time.monotonic() - begin)

    with ThreadPoolExecutor(CONCURRENCY) as clients:
        for running_client in [clients.submit(client_loop) for _ in range(CONCURRENCY)]:
            running_client.result()


def _metrics(up: Running) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in httpx.get(f"{up.url}/metrics", timeout=30).text.splitlines():
        wanted = line.startswith(("vllm:warmset_tier_", "vllm:external_prefix_cache_hits_total"))
        if wanted and "_bucket" not in line and "_created" not in line:
            name, value = line.rsplit(" ", 1)
            name = name.split("{")[0].removeprefix("vllm:") + (
                ":" + name.split('result="')[1].split('"')[0] if 'result="' in name else ""
            )
            found[name] = found.get(name, 0) + float(value)
    return found


class Faults:
    """A healthy while, then one with a fault, and so on, in the order that the seed decides."""

    def __init__(self, server: Any, proxy: Any, seen: Seen) -> None:
        self._server, self._proxy, self._seen = server, proxy, seen
        self._order: list[str] = []
        self._random = Random(SEED)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(HEALTHY_SECONDS):
            if not self._order:
                # Each once before any comes again.
                self._order = self._random.sample(FAULTS, len(FAULTS))
            fault = self._order.pop()
            self._seen.phases[fault] = self._seen.phases.get(fault, 0) + 1
            if fault == "SIGSTOP":
                self._server.pause()
            elif fault == "restart":
                self._server.kill()
            else:
                self._proxy.mode = fault
            self._over.wait(FAULTY_SECONDS)
            if fault == "SIGSTOP":
                self._server.resume()
            elif fault == "restart":
                self._server.start()
            self._proxy.mode = "ok"


def test_thousands_of_requests_through_faults_are_right_and_leak_nothing(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", SHAPE, seed=3)
    expected: dict[int, tuple[int, ...]] = {}
    with _serve(model, tmp_path, "without", None) as up:
        _in_parallel(up, list(range(PROMPTS)), lambda n, tokens, _: expected.update({n: tokens}))
    assert len(set(expected.values())) > PROMPTS * 3 // 4, "prompts must tell their answers apart"

    random = Random(SEED)
    asked = [int(random.paretovariate(0.4)) % PROMPTS for _ in range(REQUESTS)]
    seen = Seen()
    server = s3.JuiceFS(tmp_path / "store")
    proxy = s3.Proxy(server.port)
    shared_before = set(os.listdir("/dev/shm"))
    try:
        with _serve(model, tmp_path, "with", _tier(proxy.endpoint)) as up:
            stop = threading.Event()

            def sample() -> None:
                while not stop.wait(2):
                    held = held_by(processes_of(f"--port {up.url.rpartition(':')[2]}"))
                    seen.samples.append((len(seen.seconds), held))

            def done(number: int, tokens: tuple[int, ...], took: float) -> None:
                if tokens != expected[number]:
                    seen.wrong.append(number)
                seen.seconds.append(took)

            sampler = threading.Thread(target=sample)
            sampler.start()
            begin = time.monotonic()
            faults = Faults(server, proxy, seen)
            try:
                _in_parallel(up, asked, done, PACE_SECONDS)
            finally:
                faults.end()
                stop.set()
                sampler.join()
            took = time.monotonic() - begin
            counts = _metrics(up)
    finally:
        proxy.end()
        server.kill()
    left = left_in_shared_memory(shared_before)
    _report(seen, counts, took, left)
    assert len(seen.seconds) == REQUESTS
    assert seen.wrong == []
    assert max(seen.seconds) < 2 * DEADLINE_SECONDS + 5, "nobody waits for the store beyond its deadlines"
    for name in (
        "loads_total:loaded",
        "loads_total:corrupt",
        "lookups_total:expired",
        "lookups_total:unavailable",
    ):
        assert counts.get(f"warmset_tier_{name}", 0) > 0, (name, counts)
    assert left == []
    # What is held in the last third against the third before it, once buffers and pools have their size. The tier
    # lives in the engine; vLLM's CPU workers grow by 24 MiB per 1,000 of these requests without any tier.
    for name, allowed in (("processes", 0), ("threads", 4), ("files", 8), ("memory_mib", 24)):
        before, after = _median(seen, name, 1 / 3, 2 / 3), _median(seen, name, 2 / 3, 1)
        assert after <= before + allowed, (name, before, after)


def _median(seen: Seen, name: str, start: float, end: float) -> float:
    values = sorted(held[name] for ended, held in seen.samples if start * REQUESTS <= ended <= end * REQUESTS)
    assert values, "too few requests to tell a leak"
    return values[len(values) // 2]


def _report(seen: Seen, counts: dict[str, float], took: float, left: list[str]) -> None:
    ordered = sorted(seen.seconds)
    thirds = {
        name: [round(_median(seen, name, i / 3, (i + 1) / 3), 1) for i in range(3)]
        for name in ("processes", "threads", "files", "memory_mib", "workers_mib")
    }
    found = {
        "requests": len(ordered),
        "wrong": len(seen.wrong),
        "seconds": round(took, 1),
        "p50_seconds": round(ordered[len(ordered) // 2], 3),
        "p99_seconds": round(ordered[int(0.99 * len(ordered))], 3),
        "max_seconds": round(ordered[-1], 3),
        "fault_phases": dict(sorted(seen.phases.items())),
        "median_by_third": thirds,
        "shared_memory_left": left,
        "counts": {k: round(v, 3) for k, v in sorted(counts.items())},
    }
    text = json.dumps(found, indent=1)
    print(text)
    if path := os.environ.get("WARMSET_SOAK_REPORT"):
        Path(path).write_text(text + "\n")
