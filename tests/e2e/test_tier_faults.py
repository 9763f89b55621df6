"""The tier under vLLM's own tiering manager, without an engine: what it serves while its store fails.

Blocks have known bytes, so a wrong one is seen. vLLM's own file tier goes through the same faults beside it: that it
fails some is no failure here, and shown in docs/explanation/tiers-below-ram.md. WARMSET_FAULT_TABLE names a file to
write the table into.
"""

import contextlib
import hashlib
import http.client
import itertools
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mmap import mmap
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
pytest.importorskip("vllm")

from warmset.vllm.startup import answer_for_vllm, hide_mismatched_companions  # noqa: E402

hide_mismatched_companions()
answer_for_vllm()

from vllm.v1.kv_offload.base import (  # noqa: E402
    LookupResult,
    OffloadingKVEventsConfig,
    ReqContext,
    ScheduleEndContext,
    make_offload_key,
)
from vllm.v1.kv_offload.config import (  # noqa: E402
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.fs.manager import FileSystemTierManager  # noqa: E402
from vllm.v1.kv_offload.tiering.manager import (  # noqa: E402
    CPUPrimaryTierOffloadingManager,
    TieringOffloadingManager,
)

from warmset.tiers import breaker  # noqa: E402
from warmset.vllm import tier as warmset_tier  # noqa: E402

BLOCK_BYTES = 16384
PROMPT_BLOCKS = 4
DEADLINE_SECONDS = 0.5
# A lookup and a load may each take their deadline; beyond that a request is held for good.
HELD_SECONDS = 2 * DEADLINE_SECONDS + 1.0
PATIENCE_SECONDS = 4.0
STEP = ScheduleEndContext(new_req_ids=[], preempted_req_ids=())


def _spec(tp_size: int = 1) -> Any:
    config = OffloadingConfig(
        groups=(),
        worker_kv_bytes_per_block=0,
        enable_kv_cache_events=False,
        extra_config={},
        engine_id="test-engine",
        model=OffloadingModelConfig(name="test-model", dtype="float32"),
        cache=OffloadingCacheConfig(tokens_per_hash=16, blocks_per_chunk=1),
        parallel=OffloadingParallelConfig(
            rank=0,
            world_size=tp_size,
            tp_size=tp_size,
            pp_size=1,
            pcp_size=1,
            dcp_size=1,
            data_parallel_index=0,
            data_parallel_size=1,
            data_parallel_rank_local=None,
            is_parallelism_agnostic=False,
        ),
        replicated_layout=False,
    )
    events = OffloadingKVEventsConfig(enable_kv_cache_events=False, self_describing_kv_events=False)
    return SimpleNamespace(config=config, blocks_per_chunk=1, kv_events_config=events)


@dataclass
class Served:
    """What requests came to."""

    hits: int = 0
    wrong: int = 0
    longest_seconds: float = 0.0


class Replica:
    """vLLM's tiering manager over one tier, fed with requests whose KV bytes are a function of prompt and weights."""

    numbers = itertools.count()

    def __init__(
        self, kind: str, store: str, *, weights: str = "A", tp_size: int = 1, **settings: Any
    ) -> None:
        self._weights = f"{weights}/{tp_size}"
        self._pages = memoryview(mmap(-1, 8 * BLOCK_BYTES))
        view = self._pages.cast("B", (8, BLOCK_BYTES))
        region = SimpleNamespace(create_kv_memoryview=lambda: view)
        primary = CPUPrimaryTierOffloadingManager(num_chunks=8, mmap_region=region)
        spec, rows = _spec(tp_size), primary.get_kv_memoryview()
        if kind == "fs":
            self.tier: Any = FileSystemTierManager(spec, rows, "fs", root_dir=store.removeprefix("file://"))
        else:
            spec.fingerprint = self._weights
            self.tier = warmset_tier.WarmsetTier(
                spec,
                rows,
                "WarmsetTier",
                store=store,
                lookup_deadline_seconds=DEADLINE_SECONDS,
                load_deadline_seconds=DEADLINE_SECONDS,
                **settings,
            )
        self.manager = TieringOffloadingManager(primary_tier=primary, secondary_tiers=[self.tier])

    def serve(self, *prompts: str) -> Served:
        """One request after the other."""
        done = Served()
        for prompt in prompts:
            begin = time.monotonic()
            self._one(prompt, done)
            done.longest_seconds = max(done.longest_seconds, time.monotonic() - begin)
        return done

    def settle(self, seconds: float = 5.0) -> None:
        """Step until nothing moves."""
        end = time.monotonic() + seconds
        while self.manager._jobs and time.monotonic() < end:
            self._step()

    def seen(self) -> dict[str, int]:
        """What the tier's counters say, without what is no fault."""
        if not isinstance(self.tier, warmset_tier.WarmsetTier):
            return {}
        self.tier.get_stats()
        counts = {f"lookups.{k}": v for k, v in asdict(self.tier._lookups.counts).items()}
        counts |= {f"blocks.{k}": v for k, v in asdict(self.tier._transfers.counts).items()}
        usual = ("hits", "misses", "remembered_misses", "probes", "loaded", "stored", "already_stored")
        return {k: v for k, v in counts.items() if v and k.partition(".")[2] not in usual}

    def close(self) -> None:
        """End the tier; one that hangs is left behind."""
        thread = threading.Thread(target=self.tier.shutdown, daemon=True)
        thread.start()
        thread.join(10)

    def content(self, prompt: str, block: int) -> bytes:
        """The KV bytes of one block, as the right weights make them."""
        seed = hashlib.sha256(f"{self._weights}:{prompt}:{block}".encode()).digest()
        return seed * (BLOCK_BYTES // len(seed))

    def _one(self, prompt: str, done: Served) -> None:
        context = ReqContext(req_id=f"r{next(self.numbers)}")
        keys = [
            make_offload_key(hashlib.sha256(f"{prompt}:{i}".encode()).digest(), 0)
            for i in range(PROMPT_BLOCKS)
        ]
        self.manager.on_new_request(context)
        for i, key in enumerate(keys):
            context.set_offload_key_position(key, 16 * (i + 1))
        hits = self._looked_up(keys, context)
        if hits:
            slots = self.manager.prepare_load(keys[:hits], context).chunk_ids
            for i, slot in enumerate(slots):
                done.wrong += bytes(self._row(int(slot))) != self.content(prompt, i)
            self.manager.complete_load(keys[:hits], context)
            done.hits += hits
        out = self.manager.prepare_store(keys[hits:], context) if hits < len(keys) else None
        if out is not None and out.keys_to_store:
            for key, slot in zip(out.keys_to_store, out.store_spec.chunk_ids, strict=True):
                self._row(int(slot))[:] = self.content(prompt, keys.index(key))
            self.manager.complete_store(out.keys_to_store, context)
        self.manager.on_request_finished(context)
        self._step()

    def _looked_up(self, keys: list[Any], context: Any) -> int:
        """Leading blocks in the host tier, once every answer is there; 0 when patience ends, as a client's does."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            found = []
            for key in keys:
                found.append(self.manager.lookup(key, context))
                if found[-1] is LookupResult.MISS:
                    break
            if not {LookupResult.RETRY, LookupResult.HIT_PENDING} & set(found):
                return sum(result is LookupResult.HIT for result in found)
            self._step()
        return 0

    def _row(self, slot: int) -> memoryview:
        return self._pages[slot * BLOCK_BYTES : (slot + 1) * BLOCK_BYTES]

    def _step(self) -> None:
        self.manager.on_schedule_end(STEP)
        self.manager._maybe_process_finished_jobs()
        time.sleep(0.001)


@dataclass
class Table:
    """Fault → tier → what happened."""

    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, fault: str, kind: str, served: Served, seen: dict[str, int], more: str = "") -> None:
        words = [f"**{served.wrong} wrong blocks served**" if served.wrong else "nothing wrong served"]
        held = served.longest_seconds >= PATIENCE_SECONDS
        words.append("**a request hangs**" if held else f"longest request {served.longest_seconds:.1f} s")
        if seen:
            words.append("counted: " + ", ".join(f"`{k}` {v}" for k, v in sorted(seen.items())))
        elif kind == "fs":
            words.append("nothing counted" if served.wrong or held else "")
        self.rows.setdefault(fault, {})[kind] = "; ".join(w for w in (*words, more) if w)


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table()
    yield table
    if path := os.environ.get("WARMSET_FAULT_TABLE"):
        lines = ["| fault | warmset tier | vLLM's `fs` tier |", "| --- | --- | --- |"]
        lines += [
            f"| {f} | {r.get('warmset', '')} | {r.get('fs', 'not a file')} |" for f, r in table.rows.items()
        ]
        Path(path).write_text("\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def engine_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        warmset_tier, "fingerprint", lambda spec, **more: f"{spec.fingerprint} {more['encryption_key_id']}"
    )
    monkeypatch.setattr(warmset_tier, "weights_may_change", lambda spec: False)
    # A store that is back must be asked again before a test ends.
    monkeypatch.setattr(
        breaker.CircuitBreaker.__init__,
        "__kwdefaults__",
        {**breaker.CircuitBreaker.__init__.__kwdefaults__, "rest_seconds": 1.0},
    )


def _files(root: Path) -> list[Path]:
    return sorted(
        p for p in root.rglob("*") if p.is_file() and p.suffix != ".json" and ".unfinished" not in p.parts
    )


PROMPTS = [f"prompt {i}" for i in range(6)]


def _filled(kind: str, root: Path, prompts: list[str] = PROMPTS, **more: Any) -> None:
    writer = Replica(kind, f"file://{root}", **more)
    for prompt in prompts:
        writer.serve(prompt)
        writer.settle()
    writer.close()
    assert len(_files(root)) == PROMPT_BLOCKS * len(prompts)


def _flip(root: Path) -> None:
    for path in _files(root):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)


def _truncate(root: Path) -> None:
    for path in _files(root):
        os.truncate(path, path.stat().st_size // 2)


def _lengthen(root: Path) -> None:
    for path in _files(root):
        with path.open("ab") as file:
            file.write(b"x" * 4096)


def _swap(root: Path) -> None:
    files = _files(root)
    for one, other in zip(files[::2], files[1::2], strict=True):
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)


def _foreign(root: Path) -> None:
    first, *rest = _files(root)
    for path in rest:
        shutil.copyfile(first, path)


def _half_written(root: Path) -> None:
    for path in _files(root)[::2]:
        data = path.read_bytes()
        path.unlink()
        # As a writer that was killed leaves it, under both tiers' names for unfinished files.
        path.with_name(path.name + "_1.tmp").write_bytes(data[: len(data) // 2])
        (root / ".unfinished").mkdir(exist_ok=True)
        (root / ".unfinished" / f"killed-{path.name}").write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize("kind", ["warmset", "fs"])
@pytest.mark.parametrize(
    ("fault", "damage"),
    [
        ("one bit flipped in every block", _flip),
        ("every block truncated", _truncate),
        ("every block longer than it was", _lengthen),
        ("blocks swapped", _swap),
        ("a foreign block at the right key", _foreign),
        ("half-written objects of a killed writer", _half_written),
    ],
)
def test_damage(table: Table, tmp_path: Path, kind: str, fault: str, damage: Callable[[Path], None]) -> None:
    _filled(kind, tmp_path)
    before = Replica(kind, f"file://{tmp_path}")
    assert before.serve(*PROMPTS).hits == PROMPT_BLOCKS * len(PROMPTS)
    before.close()
    damage(tmp_path)
    reader = Replica(kind, f"file://{tmp_path}")
    served = reader.serve(*PROMPTS)
    table.add(fault, kind, served, reader.seen())
    if kind == "warmset":
        assert served.wrong == 0
        assert served.longest_seconds < HELD_SECONDS
        assert damage is _half_written or reader.seen()["blocks.corrupt"] > 0
        reader.settle()
        again = Replica(kind, f"file://{tmp_path}")
        healed = again.serve(*PROMPTS)
        again.close()
        assert (healed.wrong, healed.hits) == (0, PROMPT_BLOCKS * len(PROMPTS)), (
            "stored again, right this time"
        )
    reader.close()


@pytest.mark.parametrize("kind", ["warmset", "fs"])
@pytest.mark.parametrize(
    ("fault", "other"),
    [
        ("weights changed under the same path", {"weights": "B"}),
        ("other parallelism", {"tp_size": 2}),
    ],
)
def test_another_engine(table: Table, tmp_path: Path, kind: str, fault: str, other: dict[str, Any]) -> None:
    _filled(kind, tmp_path)
    reader = Replica(kind, f"file://{tmp_path}", **other)
    served = reader.serve(*PROMPTS)
    table.add(fault, kind, served, reader.seen())
    reader.close()
    if kind == "warmset":
        assert (served.wrong, served.hits) == (0, 0)


def test_replicas_share_what_their_settings_at_rest_let_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_A", "aa" * 32)
    monkeypatch.setenv("KEY_B", "bb" * 32)
    a, b = {"encryption_key_env": "KEY_A"}, {"encryption_key_env": "KEY_B"}
    everything = PROMPT_BLOCKS * len(PROMPTS)
    writer = Replica("warmset", f"file://{tmp_path}", compress="zstd", **a)
    writer.serve(*PROMPTS)
    writer.settle()
    writer.close()
    # The last finds what the one before it stored plain: a reader follows the header.
    for settings, hits in ((a, everything), (b, 0), ({}, 0), ({"compress": "zstd"}, everything)):
        reader = Replica("warmset", f"file://{tmp_path}", **settings)
        served = reader.serve(*PROMPTS)
        reader.settle()
        assert (served.wrong, served.hits) == (0, hits), settings
        assert not {k for k in reader.seen() if "corrupt" in k}, "nobody harms another's blocks"
        reader.close()


def test_a_tier_whose_key_is_missing_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`NO_SUCH_KEY`.*not set"):
        Replica("warmset", f"file://{tmp_path}", encryption_key_env="NO_SUCH_KEY")


@pytest.mark.parametrize("kind", ["warmset", "fs"])
def test_a_read_that_stands_still(table: Table, tmp_path: Path, kind: str) -> None:
    _filled(kind, tmp_path)
    stuck = _files(tmp_path)
    for path in stuck:
        path.unlink()
        os.mkfifo(path)
    reader = Replica(kind, f"file://{tmp_path}")
    served = reader.serve(*PROMPTS[:3])
    table.add("disk reads stand still", kind, served, reader.seen())
    # Whoever waits for a writer gets one, and an end.
    for path in stuck:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    reader.close()
    if kind == "warmset":
        assert served.wrong == 0
        assert served.longest_seconds < HELD_SECONDS
        assert reader.seen()["blocks.expired"] > 0


@pytest.mark.parametrize("kind", ["warmset", "fs"])
def test_a_full_disk(table: Table, tmp_path: Path, kind: str) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mount.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        many = [f"many {i}" for i in range(60)]
        writer = Replica(kind, f"file://{tmp_path}")
        served = Served()
        for prompt in many:
            one = writer.serve(prompt)
            served.longest_seconds = max(served.longest_seconds, one.longest_seconds)
            served.wrong += one.wrong
            writer.settle()
            time.sleep(0.05)
        seen = writer.seen()
        writer.close()
        latest = Replica(kind, f"file://{tmp_path}")
        found = latest.serve(*many[-12:])
        served.wrong += found.wrong
        latest.close()
        share = f"{found.hits} of {12 * PROMPT_BLOCKS} of the latest blocks are in the store"
        table.add("disk full", kind, served, seen, share)
        if kind == "warmset":
            assert served.wrong == 0
            assert served.longest_seconds < HELD_SECONDS
            assert seen["blocks.full"] > 0
            assert found.hits > 0, "old blocks make room for new ones"
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.mark.parametrize("kind", ["warmset", "fs"])
def test_permission_lost(table: Table, tmp_path: Path, kind: str) -> None:
    root = tmp_path / "kv"
    root.mkdir()
    _filled(kind, root)
    # Not by mode bits: root passes those.
    if subprocess.run(["chattr", "-R", "+i", str(root)], capture_output=True).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        reader = Replica(kind, f"file://{root}") if kind == "fs" else None
        if reader is None:
            subprocess.run(["chattr", "-i", str(root), str(root / ".unfinished")], check=True)
            reader = Replica(kind, f"file://{root}")
            subprocess.run(["chattr", "-R", "+i", str(root)], check=True)
        served = reader.serve(*PROMPTS, "new 1", "new 2")
        reader.settle()
        table.add("permission to write lost", kind, served, reader.seen())
        if kind == "warmset":
            assert (served.wrong, served.hits) == (0, PROMPT_BLOCKS * len(PROMPTS))
            assert served.longest_seconds < HELD_SECONDS
            assert reader.seen()["blocks.failed"] > 0
        reader.close()
    finally:
        subprocess.run(["chattr", "-R", "-i", str(root)], check=True)


@pytest.mark.parametrize("kind", ["warmset", "fs"])
def test_two_writers_race(table: Table, tmp_path: Path, kind: str) -> None:
    replicas = [Replica(kind, f"file://{tmp_path}") for _ in range(2)]
    served = [Served(), Served()]

    def run(number: int) -> None:
        for i in range(30):
            one = replicas[number].serve(f"shared {i}")
            served[number].wrong += one.wrong
            served[number].longest_seconds = max(served[number].longest_seconds, one.longest_seconds)
        replicas[number].settle()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = Replica(kind, f"file://{tmp_path}")
    found = reader.serve(*[f"shared {i}" for i in range(30)])
    both = Served(
        found.hits, found.wrong + sum(s.wrong for s in served), max(s.longest_seconds for s in served)
    )
    table.add("two writers race", kind, both, reader.seen())
    if kind == "warmset":
        assert both.wrong == 0
        assert both.longest_seconds < HELD_SECONDS
        assert found.hits > 0


class Proxy(ThreadingHTTPServer):
    """Stands before an object store and fails as told by `mode`."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.mode = "ok"
        self.backend = port
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that gave up are expected."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = {"500": 500, "throttled": 503, "credentials": 403}.get(server.mode)
        if status is not None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if server.mode in ("stopped", "slow"):
            for _ in range(100):
                time.sleep(0.1)
                if server.mode == "ok":
                    break
        if server.mode == "killed":
            self.close_connection = True
            return
        backend = http.client.HTTPConnection("127.0.0.1", server.backend, timeout=30)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "content-length")}
        backend.request(self.command, self.path, body, headers)
        answer = backend.getresponse()
        data = answer.read()
        backend.close()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "server", "date"):
                self.send_header(name, value)
        length = int(answer.getheader("Content-Length") or len(data)) if self.command == "HEAD" else len(data)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "GET" and server.mode == "cut":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif self.command == "GET" and server.mode == "flipped" and len(data) > 5000:
            self.wfile.write(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
        elif self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _forward  # noqa: N815

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    pytest.importorskip("obstore")
    binary = shutil.which("moto_server") or Path(__file__).parents[2] / ".venv/bin/moto_server"
    if not Path(binary).exists():
        pytest.skip("moto[server] is not installed")
    from warmset.lab.server import free_port

    port = free_port()
    moto = subprocess.Popen([str(binary), "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    end = time.monotonic() + 30
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("PUT", "/kv-cache")
            assert connection.getresponse().status == 200
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.2)
    proxy = Proxy(port)
    yield proxy
    proxy.shutdown()
    proxy.server_close()
    moto.kill()
    moto.wait()


@pytest.mark.parametrize(
    ("fault", "mode", "counter"),
    [
        ("object store killed", "killed", "failed"),
        ("object store stopped (answers nothing)", "stopped", "expired"),
        ("object store answers 500", "500", "failed"),
        ("object store throttles (503)", "throttled", "failed"),
        ("credentials expired (403)", "credentials", "failed"),
        ("10 s latency", "slow", "expired"),
        ("object cut in transfer", "cut", "failed"),
        ("one bit flipped in transfer", "flipped", "corrupt"),
    ],
)
def test_an_object_store_in_trouble(table: Table, proxy: Proxy, fault: str, mode: str, counter: str) -> None:
    store = {"endpoint": f"http://127.0.0.1:{proxy.server_port}"}
    url = f"s3://kv-cache/{mode}"
    prompts = [f"{mode} {i}" for i in range(12)]
    proxy.mode = "ok"
    writer = Replica("warmset", url, **store)
    for prompt in prompts:
        writer.serve(prompt)
        writer.settle()
    reader = Replica("warmset", url, **store)
    assert reader.serve(prompts[0]).hits == PROMPT_BLOCKS
    proxy.mode = mode
    try:
        served = reader.serve(*prompts[1:5], "never seen before")
        table.add(fault, "warmset", served, reader.seen())
        assert served.wrong == 0
        assert served.longest_seconds < HELD_SECONDS
        assert any(counter in name for name in reader.seen()), reader.seen()
    finally:
        proxy.mode = "ok"
    end = time.monotonic() + 10
    while not (back := reader.serve(*prompts[6:9])).hits:
        assert time.monotonic() < end, "a store that is back is used again"
        time.sleep(0.3)
    assert back.wrong == 0
    writer.close()
    reader.close()
    workers = itertools.chain(*(w._threads for w in reader.tier._transfers._workers.values()))
    # A request that hangs in the store ends with its own time limit.
    assert mode in ("stopped", "slow") or not [t for t in workers if t.is_alive()]


def _held() -> dict[str, int]:
    status = Path("/proc/self/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "shared memory": len(os.listdir("/dev/shm")),
        "rss_kib": rss,
    }


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_long_run_through_faults_leaks_nothing(proxy: Proxy) -> None:
    """RAM over an object store, without an engine; WARMSET_SOAK_REQUESTS makes it shorter."""
    requests = int(os.environ.get("WARMSET_SOAK_REQUESTS", "10000"))
    replica = Replica("warmset", "s3://kv-cache/soak", endpoint=f"http://127.0.0.1:{proxy.server_port}")
    modes = [
        "ok",
        "ok",
        "500",
        "ok",
        "flipped",
        "ok",
        "cut",
        "throttled",
        "ok",
        "killed",
        "ok",
        "credentials",
    ]
    random = Random(7)
    served, warm = Served(), None
    for number in range(requests):
        if number % 100 == 0:
            proxy.mode = modes[number // 100 % len(modes)]
            # Long enough for the breaker to try the store again.
            time.sleep(1.1)
        if number == requests // 3:
            warm = _held()
        one = replica.serve(f"soak {int(random.paretovariate(0.6)) % 400}")
        served.hits += one.hits
        served.wrong += one.wrong
        served.longest_seconds = max(served.longest_seconds, one.longest_seconds)
        replica.seen()
    proxy.mode = "ok"
    replica.settle(60)
    held = _held()
    assert warm is not None
    assert served.wrong == 0
    assert served.hits > 0
    assert served.longest_seconds < HELD_SECONDS
    assert held["threads"] <= warm["threads"] + 8, (warm, held)
    assert held["files"] <= warm["files"] + 40, (warm, held)
    assert held["shared memory"] <= warm["shared memory"]
    assert held["rss_kib"] < warm["rss_kib"] + 64 * 1024, (warm, held)
    assert replica.manager._jobs == {}
    assert replica.tier._lookups._questions == {}
    print(f"{requests} requests, {served}, {warm} → {held}, {replica.seen()}")
    replica.close()
