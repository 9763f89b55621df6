"""The tier under vLLM's own tiering manager, without an engine: what it serves while its store fails.

Blocks have known bytes, so a wrong one is seen. vLLM's own file and object tiers (the latter where NIXL is installed)
go through the same faults beside it: that they fail some is no failure here, and shown in
docs/explanation/tiers-below-ram.md. WARMSET_FAULT_TABLE names a file to write the table into.
"""

import contextlib
import hashlib
import itertools
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from mmap import mmap
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, ClassVar, Protocol

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

from e2e import faulty_s3 as s3  # noqa: E402
from e2e.processes import held_by  # noqa: E402
from warmset.tiers import breaker  # noqa: E402
from warmset.vllm import tier as warmset_tier  # noqa: E402

BLOCK_BYTES = 16384
PROMPT_BLOCKS = 4
DEADLINE_SECONDS = 0.5
# A lookup and a load may each take their deadline; beyond that a request is held for good.
HELD_SECONDS = 2 * DEADLINE_SECONDS + 1.0
PATIENCE_SECONDS = 4.0
STEP = ScheduleEndContext(new_req_ids=[], preempted_req_ids=())


def _spec(tp_size: int = 1, *, events: bool = False) -> Any:
    config = OffloadingConfig(
        groups=(),
        worker_kv_bytes_per_block=0,
        enable_kv_cache_events=events,
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
    kv_events = OffloadingKVEventsConfig(enable_kv_cache_events=events, self_describing_kv_events=False)
    return SimpleNamespace(config=config, blocks_per_chunk=1, kv_events_config=kv_events)


@dataclass
class Served:
    """What requests came to."""

    hits: int = 0
    wrong: int = 0
    longest_seconds: float = 0.0


class Replica:
    """vLLM's tiering manager over one tier, fed with requests whose KV bytes are a function of prompt and weights."""

    numbers = itertools.count()
    kept: ClassVar[list[memoryview]] = []

    def __init__(
        self, kind: str, store: str, *, weights: str = "A", tp_size: int = 1, **settings: Any
    ) -> None:
        self._weights = f"{weights}/{tp_size}"
        self._pages = memoryview(mmap(-1, 8 * BLOCK_BYTES))
        view = self._pages.cast("B", (8, BLOCK_BYTES))
        region = SimpleNamespace(create_kv_memoryview=lambda: view)
        primary = CPUPrimaryTierOffloadingManager(num_chunks=8, mmap_region=region)
        spec = _spec(tp_size, events=bool(settings.get("enable_kv_events")))
        rows = primary.get_kv_memoryview()
        if kind == "fs":
            self.tier: Any = FileSystemTierManager(spec, rows, "fs", root_dir=store.removeprefix("file://"))
        elif kind == "obj":
            self.tier = _obj_tier(spec, rows, store, **settings)
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
        if not isinstance(self.tier, warmset_tier.WarmsetTier):
            # vLLM's object tier goes on reading from memory after its end, and crashes when that is gone.
            self.settle()
            self.kept.append(self._pages)
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


def _obj_tier(spec: Any, rows: memoryview, store: str, *, endpoint: str) -> Any:
    """vLLM's object tier; without its telemetry, NIXL raises where the tier asks how long a transfer took."""
    from vllm.v1.kv_offload.tiering.obj.manager import ObjectStoreSecondaryTierManager

    os.environ["NIXL_TELEMETRY_ENABLE"] = "y"
    bucket, _, prefix = store.removeprefix("s3://").partition("/")
    config = {
        "bucket": bucket,
        "endpoint_override": endpoint,
        "access_key": s3.CREDENTIALS["AWS_ACCESS_KEY_ID"],
        "secret_key": s3.CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        "region": s3.CREDENTIALS["AWS_REGION"],
    }
    return ObjectStoreSecondaryTierManager(spec, rows, "obj", store_config=config, prefix=prefix)


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
        elif kind != "warmset":
            words.append("nothing counted" if served.wrong or held else "")
        self.rows.setdefault(fault, {})[kind] = "; ".join(w for w in (*words, more) if w)


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table()
    yield table
    if path := os.environ.get("WARMSET_FAULT_TABLE"):
        lines = [
            "| fault | warmset tier | vLLM's `fs` tier | vLLM's `obj` tier |",
            "| --- | --- | --- | --- |",
        ]
        lines += [
            f"| {f} | {r.get('warmset', '')} | {r.get('fs', 'not a file')} | {r.get('obj', 'not an object')} |"
            for f, r in table.rows.items()
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


class Contents(Protocol):
    """What lies in a store, behind the tier's back."""

    url: str
    settings: dict[str, Any]

    def names(self) -> list[str]: ...
    def read(self, name: str) -> bytes: ...
    def write(self, name: str, data: bytes) -> None: ...
    def remove(self, name: str) -> None: ...


class Folder:
    """The files of the warmset tier, and of vLLM's `fs`."""

    def __init__(self, root: Path) -> None:
        self._root, self.url = root, f"file://{root}"
        self.settings: dict[str, Any] = {}

    def names(self) -> list[str]:
        return [str(path.relative_to(self._root)) for path in _files(self._root)]

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        (self._root / name).parent.mkdir(exist_ok=True)
        (self._root / name).write_bytes(data)

    def remove(self, name: str) -> None:
        (self._root / name).unlink()


class Objects:
    """The objects of vLLM's `obj`."""

    def __init__(self, endpoint: str, prefix: str) -> None:
        from obstore.store import from_url

        self.url, self.settings = f"s3://{s3.BUCKET}/{prefix}", {"endpoint": endpoint}
        self._store: Any = from_url(
            self.url, config={"endpoint": endpoint}, client_options={"allow_http": True}
        )

    def names(self) -> list[str]:
        import obstore

        return sorted(meta["path"] for batch in obstore.list(self._store) for meta in batch)

    def read(self, name: str) -> bytes:
        import obstore

        return bytes(obstore.get(self._store, name).bytes())

    def write(self, name: str, data: bytes) -> None:
        import obstore

        obstore.put(self._store, name, data)

    def remove(self, name: str) -> None:
        import obstore

        obstore.delete(self._store, name)


def _files(root: Path) -> list[Path]:
    return sorted(
        p for p in root.rglob("*") if p.is_file() and p.suffix != ".json" and ".unfinished" not in p.parts
    )


@pytest.fixture
def contents(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Contents]:
    """Makes an empty store for a kind of tier; skips where NIXL cannot reach one."""

    def make(kind: str) -> Contents:
        if kind != "obj":
            return Folder(tmp_path)
        _need_nixl()
        proxy = request.getfixturevalue("proxy")
        proxy.mode = "ok"
        return Objects(proxy.endpoint, f"o{time.time_ns()}")

    return make


def _need_nixl() -> None:
    api = pytest.importorskip("nixl._api")
    if "OBJ" not in api.nixl_agent("probe", api.nixl_agent_config(backends=[])).get_plugin_list():
        pytest.skip("NIXL has no OBJ plugin")


PROMPTS = [f"prompt {i}" for i in range(6)]


def _filled(kind: str, store: Contents, **more: Any) -> None:
    writer = Replica(kind, store.url, **store.settings, **more)
    for prompt in PROMPTS:
        writer.serve(prompt)
        writer.settle()
    writer.close()
    assert len(store.names()) == PROMPT_BLOCKS * len(PROMPTS)


def _flip(store: Contents) -> None:
    for name in store.names():
        data = bytearray(store.read(name))
        data[len(data) // 2] ^= 1
        store.write(name, bytes(data))


def _truncate(store: Contents) -> None:
    for name in store.names():
        data = store.read(name)
        store.write(name, data[: len(data) // 2])


def _lengthen(store: Contents) -> None:
    for name in store.names():
        store.write(name, store.read(name) + b"x" * 4096)


def _swap(store: Contents) -> None:
    names = store.names()
    for one, other in zip(names[::2], names[1::2], strict=True):
        first, second = store.read(one), store.read(other)
        store.write(one, second)
        store.write(other, first)


def _foreign(store: Contents) -> None:
    first, *rest = store.names()
    data = store.read(first)
    for name in rest:
        store.write(name, data)


def _half_written(store: Contents) -> None:
    for name in store.names()[::2]:
        data = store.read(name)
        store.remove(name)
        # As a writer that was killed leaves it, under the tiers' names for unfinished files.
        store.write(f"{name}_1.tmp", data[: len(data) // 2])
        store.write(f".unfinished/killed-{Path(name).name}", data[: len(data) // 2])


@pytest.mark.parametrize("kind", ["warmset", "fs", "obj"])
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
def test_damage(
    table: Table,
    contents: Callable[[str], Contents],
    kind: str,
    fault: str,
    damage: Callable[[Contents], None],
) -> None:
    store = contents(kind)
    _filled(kind, store)
    before = Replica(kind, store.url, **store.settings)
    assert before.serve(*PROMPTS).hits == PROMPT_BLOCKS * len(PROMPTS)
    before.close()
    damage(store)
    reader = Replica(kind, store.url, **store.settings)
    served = reader.serve(*PROMPTS)
    table.add(fault, kind, served, reader.seen())
    if kind == "warmset":
        assert served.wrong == 0
        assert served.longest_seconds < HELD_SECONDS
        assert damage is _half_written or reader.seen()["blocks.corrupt"] > 0
        reader.settle()
        # A lookup that a busy machine answers too late is a miss: then the next replica finds the blocks.
        for _ in range(3):
            again = Replica(kind, store.url, **store.settings)
            healed = again.serve(*PROMPTS)
            again.close()
            assert healed.wrong == 0
            if healed.hits == PROMPT_BLOCKS * len(PROMPTS):
                break
        assert healed.hits == PROMPT_BLOCKS * len(PROMPTS), "stored again, right this time"
    reader.close()


@pytest.mark.parametrize("kind", ["warmset", "fs", "obj"])
@pytest.mark.parametrize(
    ("fault", "other"),
    [
        ("weights changed under the same path", {"weights": "B"}),
        ("other parallelism", {"tp_size": 2}),
    ],
)
def test_another_engine(
    table: Table, contents: Callable[[str], Contents], kind: str, fault: str, other: dict[str, Any]
) -> None:
    store = contents(kind)
    _filled(kind, store)
    reader = Replica(kind, store.url, **store.settings, **other)
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


def _events(replica: Replica, wanted: int) -> list[Any]:
    """What the tier announces, once it has told of `wanted` blocks."""
    found: list[Any] = []
    end = time.monotonic() + 10
    while sum(len(event.keys) for event in found) < wanted and time.monotonic() < end:
        replica._step()
        found.extend(replica.manager.take_events())
    return found


def test_the_tier_announces_what_it_stores_evicts_and_finds_corrupt(tmp_path: Path) -> None:
    told = {"enable_kv_events": True, "locality": "REMOTE"}
    root = tmp_path / "kv"
    writer = Replica("warmset", f"file://{root}", **told)
    writer.serve(*PROMPTS[:2])
    stored = _events(writer, 2 * PROMPT_BLOCKS)
    writer.close()
    assert {(e.medium.name, e.locality.name, e.removed, e.ownership) for e in stored} == {
        ("STORAGE", "REMOTE", False, "WarmsetTier")
    }
    keys = {key for event in stored for key in event.keys}
    assert len(keys) == 2 * PROMPT_BLOCKS
    _flip(Folder(root))
    reader = Replica("warmset", f"file://{root}", **told)
    reader.serve(PROMPTS[0])
    removed = [e for e in _events(reader, 2 * PROMPT_BLOCKS) if e.removed]
    assert {key for event in removed for key in event.keys} <= keys
    assert len(removed) >= 1
    assert {(e.locality.name, e.ownership) for e in removed} == {("REMOTE", "WarmsetTier")}
    reader.close()
    bounded = Replica("warmset", f"file://{root}", capacity_bytes=3 * (BLOCK_BYTES + 4096), **told)
    bounded.serve(*PROMPTS)
    evicted = [e for e in _events(bounded, 10 * PROMPT_BLOCKS) if e.removed]
    assert sum(len(event.keys) for event in evicted) >= PROMPT_BLOCKS
    bounded.close()


def test_a_tier_whose_key_is_missing_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`NO_SUCH_KEY`.*not set"):
        Replica("warmset", f"file://{tmp_path}", encryption_key_env="NO_SUCH_KEY")


@pytest.mark.parametrize("kind", ["warmset", "fs"])
def test_a_read_that_stands_still(table: Table, tmp_path: Path, kind: str) -> None:
    _filled(kind, Folder(tmp_path))
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
    _filled(kind, Folder(root))
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


@pytest.fixture(scope="module")
def proxy() -> Iterator[Any]:
    pytest.importorskip("obstore")
    os.environ |= s3.CREDENTIALS
    moto = s3.Moto()
    proxy = s3.Proxy(moto.port)
    yield proxy
    proxy.end()
    moto.kill()


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
# Ours first: what vLLM's tier still tries after a fault slows the server down.
@pytest.mark.parametrize("kind", ["warmset", "obj"])
def test_an_object_store_in_trouble(
    table: Table, proxy: Any, kind: str, fault: str, mode: str, counter: str
) -> None:
    if kind == "obj":
        _need_nixl()
    store = {"endpoint": proxy.endpoint}
    url = f"s3://{s3.BUCKET}/{kind}-{mode}"
    prompts = [f"{mode} {i}" for i in range(12)]
    proxy.mode = "ok"
    writer = Replica(kind, url, **store)
    for prompt in prompts:
        writer.serve(prompt)
        writer.settle()
    reader = Replica(kind, url, **store)
    assert reader.serve(prompts[0]).hits == PROMPT_BLOCKS
    proxy.mode = mode
    try:
        served = reader.serve(*prompts[1:5], "never seen before")
        table.add(fault, kind, served, reader.seen())
        if kind == "warmset":
            assert served.wrong == 0
            assert served.longest_seconds < HELD_SECONDS
            assert any(counter in name for name in reader.seen()), reader.seen()
    finally:
        proxy.mode = "ok"
    if kind == "warmset":
        end = time.monotonic() + 10
        while not (back := reader.serve(*prompts[6:9])).hits:
            assert time.monotonic() < end, "a store that is back is used again"
            time.sleep(0.3)
        assert back.wrong == 0
    writer.close()
    reader.close()
    if kind == "warmset":
        workers = itertools.chain(*(w._threads for w in reader.tier._transfers._workers.values()))
        # A request that hangs in the store ends with its own time limit.
        assert mode in ("stopped", "slow") or not [t for t in workers if t.is_alive()]


@pytest.mark.parametrize("kind", ["warmset", "obj"])
def test_an_object_store_that_is_killed_and_comes_back_empty(table: Table, kind: str) -> None:
    pytest.importorskip("obstore")
    if kind == "obj":
        _need_nixl()
    os.environ |= s3.CREDENTIALS
    moto = s3.Moto()
    try:
        replica = Replica(kind, f"s3://{s3.BUCKET}/restart", endpoint=f"http://127.0.0.1:{moto.port}")
        for prompt in PROMPTS[:4]:
            replica.serve(prompt)
            replica.settle()
        # Two prompts fit into RAM: the first two are in the store alone.
        served = replica.serve(PROMPTS[0])
        assert served.hits == PROMPT_BLOCKS
        moto.kill()
        down = replica.serve(PROMPTS[1], "never seen before")
        moto.start()
        back = replica.serve(*PROMPTS[2:], "and this neither")
        for one in (down, back):
            served.wrong += one.wrong
            served.longest_seconds = max(served.longest_seconds, one.longest_seconds)
        table.add("object store killed and started again, empty", kind, served, replica.seen())
        if kind == "warmset":
            assert served.wrong == 0
            assert served.longest_seconds < HELD_SECONDS
            end, again = time.monotonic() + 15, Served()
            while not again.hits:
                assert time.monotonic() < end, "what is stored from now on is found again"
                replica.settle()
                replica.serve(*PROMPTS[:4])
                replica.settle()
                again = replica.serve(PROMPTS[0])
                time.sleep(0.2)
            assert again.wrong == 0
        replica.close()
    finally:
        moto.kill()


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_a_long_run_through_faults_leaks_nothing(proxy: Any) -> None:
    """RAM over an object store, without an engine; WARMSET_SOAK_REQUESTS is how many (10,000)."""
    requests = int(os.environ.get("WARMSET_SOAK_REQUESTS", "10000"))
    replica = Replica("warmset", f"s3://{s3.BUCKET}/soak", endpoint=proxy.endpoint)
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

    def held() -> dict[str, float]:
        shared = Path("/proc/self/maps").read_text().count("/dev/shm/")
        return {**held_by([os.getpid()]), "shared memory": shared}

    for number in range(requests):
        if number % 100 == 0:
            proxy.mode = modes[number // 100 % len(modes)]
            # Long enough for the breaker to try the store again.
            time.sleep(1.1)
        if number == requests // 3:
            warm = held()
        one = replica.serve(f"soak {int(random.paretovariate(0.6)) % 400}")
        served.hits += one.hits
        served.wrong += one.wrong
        served.longest_seconds = max(served.longest_seconds, one.longest_seconds)
        replica.seen()
    proxy.mode = "ok"
    replica.settle(60)
    end = held()
    assert warm is not None
    assert served.wrong == 0
    assert served.hits > 0
    assert served.longest_seconds < HELD_SECONDS
    assert end["threads"] <= warm["threads"] + 8, (warm, end)
    assert end["files"] <= warm["files"] + 40, (warm, end)
    assert end["shared memory"] <= warm["shared memory"]
    assert end["memory_mib"] < warm["memory_mib"] + 64, (warm, end)
    assert replica.manager._jobs == {}
    assert replica.tier._lookups._questions == {}
    print(f"{requests} requests, {served}, {warm} → {end}, {replica.seen()}")
    replica.close()
