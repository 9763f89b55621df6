"""The tier below RAM on a real vLLM: what it gives back, and what it refuses to give back."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.processes import processes_of
from e2e.tiered import transfer_config
from warmset.lab.model import ModelShape, write_model
from warmset.lab.server import Running, VllmServer, free_port, running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
pytest.importorskip("vllm")

BLOCK_TOKENS = 32
PROMPT_BLOCKS = 24
SHAPE = ModelShape()
DEADLINE_SECONDS = 1.0
# The tests that share a filled store do so with blocks that are compressed and encrypted; the others' are plain.
AT_REST = {"compress": "zstd", "encryption_key_env": "TIER_KEY"}


def _prompt(seed: int) -> list[int]:
    return [(seed * 7919 + i * 104729) % 500 + 5 for i in range(PROMPT_BLOCKS * BLOCK_TOKENS + 3)]


@contextmanager
def _serve(model: Path, tmp_path: Path, store: str, *arguments: str, **tier: Any) -> Iterator[Running]:
    chunk = SHAPE.kv_bytes_per_block(BLOCK_TOKENS)
    deadlines = {"lookup_deadline_seconds": DEADLINE_SECONDS, "load_deadline_seconds": DEADLINE_SECONDS}
    # Room for two prompts: the third sends the first to the store alone.
    host_bytes = chunk * PROMPT_BLOCKS * 2
    blocks = PROMPT_BLOCKS + 8
    server = VllmServer(
        python=sys.executable,
        model=model,
        device_blocks=blocks,
        block_tokens=BLOCK_TOKENS,
        kv_cache_bytes=blocks * chunk,
        max_context_tokens=(blocks - 2) * BLOCK_TOKENS,
        concurrency=1,
        transfer=transfer_config(host_bytes, store, **{**deadlines, **tier}),
        arguments=arguments,
        environment={"XDG_CACHE_HOME": str(tmp_path / "cache"), "TIER_KEY": "5a" * 32},
    )
    with running(server, tmp_path / f"server-{time.time_ns()}.log") as up:
        yield up


def _complete(up: Running, seed: int, rank: int | None = None) -> tuple[list[int], float]:
    """Tokens and seconds; `rank` names the data-parallel rank that answers."""
    begin = time.monotonic()
    answer = httpx.post(
        f"{up.url}/v1/completions",
        json={
            "model": up.model,
            "prompt": _prompt(seed),
            "max_tokens": 8,
            "temperature": 0,
            "return_token_ids": True,
        },
        headers={} if rank is None else {"X-data-parallel-rank": str(rank)},
        timeout=120,
    )
    answer.raise_for_status()
    return answer.json()["choices"][0]["token_ids"], time.monotonic() - begin


def _metric(up: Running, name: str, **labels: str) -> float:
    total = 0.0
    for line in httpx.get(f"{up.url}/metrics", timeout=30).text.splitlines():
        if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def _settled(up: Running, expected_blocks: int) -> None:
    """Wait until the stores have been written."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if _metric(up, "vllm:warmset_tier_stores_total", result="stored") >= expected_blocks:
            return
        time.sleep(0.2)
    raise AssertionError("the blocks were not stored in time")


def _engine_processes(up: Running) -> list[int]:
    """The processes of this server, without the guard that ends them when the tests end."""
    found = processes_of(f"--port {up.url.rpartition(':')[2]}")
    return [pid for pid in found if "guard" not in Path(f"/proc/{pid}/cmdline").read_text()]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "m", SHAPE, seed=1)


@pytest.fixture(scope="module")
def filled(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, list[int]]]:
    """A store that a first server filled, and the tokens that it answered with when everything was computed."""
    folder = tmp_path_factory.mktemp("filled")
    kv = folder / "kv"
    with _serve(model, folder, f"file://{kv}", **AT_REST) as up:
        fresh = {seed: _complete(up, seed)[0] for seed in range(4)}
        _settled(up, 4 * PROMPT_BLOCKS)
        # The host tier holds two prompts: the first comes back through the store.
        again, _ = _complete(up, 0)
        assert again == fresh[0]
        assert _metric(up, "vllm:warmset_tier_loads_total", result="loaded") >= PROMPT_BLOCKS - 1
        assert _metric(up, "vllm:external_prefix_cache_hits_total") >= (PROMPT_BLOCKS - 1) * BLOCK_TOKENS
    return kv, fresh


def _copy(filled: tuple[Path, dict[int, list[int]]], tmp_path: Path) -> Path:
    kv = tmp_path / "kv"
    subprocess.run(["cp", "-a", str(filled[0]), str(kv)], check=True)
    return kv


def _blocks(kv: Path) -> list[Path]:
    return sorted(p for p in kv.rglob("*") if p.is_file() and ".unfinished" not in p.parts)


def test_a_second_replica_uses_what_the_first_stored_and_damage_is_never_served(
    model: Path, filled: tuple[Path, dict[int, list[int]]], tmp_path: Path
) -> None:
    kv, fresh = _copy(filled, tmp_path), filled[1]
    with _serve(model, tmp_path, f"file://{kv}", **AT_REST) as up:
        tokens, _ = _complete(up, 1)
        assert tokens == fresh[1], "a new server, a prompt that it never saw, the same tokens"
        assert _metric(up, "vllm:warmset_tier_loads_total", result="loaded") >= PROMPT_BLOCKS - 1
        for path in _blocks(kv):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        tokens, _ = _complete(up, 2)
        assert tokens == fresh[2], "one flipped bit in every block: computed, not served"
        assert _metric(up, "vllm:warmset_tier_loads_total", result="corrupt") >= 1
        blocks = _blocks(kv)
        for one, other in zip(blocks[::2], blocks[1::2], strict=False):
            swap = one.read_bytes()
            one.write_bytes(other.read_bytes())
            other.write_bytes(swap)
        assert _complete(up, 3)[0] == fresh[3], "swapped blocks: computed, not served"
        assert _complete(up, 77)[0], "and the server serves on"


@pytest.mark.full
def test_data_parallel_ranks_share_one_store(
    model: Path, filled: tuple[Path, dict[int, list[int]]], tmp_path: Path
) -> None:
    """Two engines below one server, a store that neither has seen: what one stores, the other loads."""
    fresh = filled[1]

    def loaded(up: Running, rank: int) -> float:
        return _metric(up, "vllm:warmset_tier_loads_total", result="loaded", engine=str(rank))

    with _serve(model, tmp_path, f"file://{tmp_path / 'kv'}", "--data-parallel-size", "2") as up:
        for seed in range(4):
            assert _complete(up, seed, rank=0)[0] == fresh[seed], "computed by the first rank"
        _settled(up, 4 * PROMPT_BLOCKS)
        assert (loaded(up, 0), loaded(up, 1)) == (0, 0)
        assert _complete(up, 0, rank=0)[0] == fresh[0], "evicted from RAM, back from the store"
        assert loaded(up, 0) >= PROMPT_BLOCKS - 1
        for seed in (1, 2, 3, 0):
            assert _complete(up, seed, rank=1)[0] == fresh[seed], "the second rank never saw this prompt"
        assert loaded(up, 1) >= 4 * (PROMPT_BLOCKS - 1)
        stored = _metric(up, "vllm:warmset_tier_stores_total", result="stored", engine="1")
        assert stored == 0, "and has nothing to store that is there already"


def test_changed_weights_share_nothing(
    model: Path, filled: tuple[Path, dict[int, list[int]]], tmp_path: Path
) -> None:
    kv = _copy(filled, tmp_path)
    changed = tmp_path / "m"
    subprocess.run(["cp", "-a", str(model), str(changed)], check=True)
    weights = next(changed.glob("*.safetensors"))
    before = weights.stat()
    data = bytearray(weights.read_bytes())
    other = write_model(tmp_path / "other", SHAPE, seed=2)
    data[:] = next(other.glob("*.safetensors")).read_bytes()
    assert len(data) == before.st_size
    with weights.open("r+b") as file:
        file.write(data)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    with _serve(changed, tmp_path, f"file://{kv}", **AT_REST) as up:
        _complete(up, 1)
        assert _metric(up, "vllm:warmset_tier_loads_total", result="loaded") == 0
        assert _metric(up, "vllm:external_prefix_cache_hits_total") == 0


def test_a_store_that_stands_still_delays_no_request_beyond_the_deadline(model: Path, tmp_path: Path) -> None:
    port = free_port()
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""], stdout=subprocess.DEVNULL
    )
    try:
        with _serve(model, tmp_path, f"redis://127.0.0.1:{port}/0") as up:
            fresh, normal = _complete(up, 1)
            _settled(up, PROMPT_BLOCKS)
            for seed in (2, 3, 4):
                _complete(up, seed)
            server.send_signal(signal.SIGSTOP)
            tokens, took = _complete(up, 1)
            assert tokens == fresh
            assert took < normal + 2 * DEADLINE_SECONDS + 1
            assert _metric(up, "vllm:warmset_tier_lookups_total", result="expired") > 0
            for seed in range(10, 16):
                _, took = _complete(up, seed)
                assert took < normal + 2 * DEADLINE_SECONDS + 1
            assert _metric(up, "vllm:warmset_tier_breaker_state") >= 1
            server.send_signal(signal.SIGCONT)
    finally:
        server.send_signal(signal.SIGCONT)
        server.kill()
        server.wait()


def test_a_server_killed_in_the_middle_of_its_stores_leaves_nothing_wrong(
    model: Path, tmp_path: Path
) -> None:
    kv = tmp_path / "kv"
    fresh: dict[int, list[int]] = {}
    with _serve(model, tmp_path, f"file://{kv}") as up:
        for seed in range(3):
            fresh[seed] = _complete(up, seed)[0]
        # The last prompt's blocks are on their way to the store.
        for pid in _engine_processes(up):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(httpx.HTTPError):
            _complete(up, 0)
    with _serve(model, tmp_path, f"file://{kv}") as up:
        for seed, tokens in fresh.items():
            assert _complete(up, seed)[0] == tokens
        assert _metric(up, "vllm:warmset_tier_loads_total", result="loaded") > 0
        assert _metric(up, "vllm:warmset_tier_loads_total", result="corrupt") == 0


def test_a_full_disk_makes_room_for_itself(model: Path, tmp_path: Path) -> None:
    kv = tmp_path / "kv"
    kv.mkdir()
    block = SHAPE.kv_bytes_per_block(BLOCK_TOKENS) + 8192
    size = f"size={3 * PROMPT_BLOCKS * block}"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(kv)], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        with _serve(model, tmp_path, f"file://{kv}") as up:
            fresh, normal = _complete(up, 0)
            for seed in range(1, 12):
                assert _complete(up, seed)[1] < normal + 2 * DEADLINE_SECONDS + 1
            assert _metric(up, "vllm:warmset_tier_stores_total", result="full") > 0
            end = time.monotonic() + 20
            while not _metric(up, "vllm:warmset_tier_evicted_bytes_total"):
                assert time.monotonic() < end, "old blocks make room"
                _complete(up, 12)
            before = _metric(up, "vllm:warmset_tier_stores_total", result="stored")
            for seed in (20, 21, 22):
                _complete(up, seed)
            _settled(up, int(before) + 1)
            assert _complete(up, 0)[0] == fresh
    finally:
        subprocess.run(["umount", "-l", str(kv)], check=True)
