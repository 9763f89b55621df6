"""What the wrappers do when the store below them fails, lies, hangs or fills up."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from warmset.errors import InputError
from warmset.tiers.breaker import CircuitBreaker
from warmset.tiers.deadline import DeadlineStore
from warmset.tiers.disk import DiskStore
from warmset.tiers.encrypt import EncryptingStore
from warmset.tiers.errors import Corrupt, Deadline, Denied, Full, NotFound, StoreError, Throttled, Unavailable
from warmset.tiers.evict import evict
from warmset.tiers.limit import LimitedStore
from warmset.tiers.memory import MemoryStore
from warmset.tiers.meter import MeteredStore
from warmset.tiers.retry import RetryingStore
from warmset.tiers.seal import HEADER_BYTES
from warmset.tiers.url import StoreOptions, open_store
from warmset.tiers.verify import VerifyingStore

DATA = bytes(range(256)) * 40


class Failing(MemoryStore):
    """Raises `error` while it is set; counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.calls = 0
        self.hang = threading.Event()
        self.hang.set()

    def get(self, key: str, into: memoryview) -> int:
        self.calls += 1
        self.hang.wait(30)
        if self.error is not None:
            raise self.error
        return super().get(key, into)


class Clock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def _read(store: object, key: str = "k", room: int = len(DATA)) -> bytes:
    buffer = bytearray(b"." * room)
    size = store.get(key, memoryview(buffer))  # type: ignore[attr-defined]
    return bytes(buffer[:size])


def _tamper(memory: MemoryStore, key: str, change: object) -> None:
    data = bytearray(memory._objects[key][0])
    memory.put(key, bytes(change(data)))  # type: ignore[operator]


@pytest.mark.parametrize(
    "position",
    [0, 7, 8, 15, 20, 40, 70, 100, 111, HEADER_BYTES, HEADER_BYTES + 1, HEADER_BYTES + len(DATA) - 1],
)
@pytest.mark.parametrize("bit", [0, 7])
def test_one_flipped_bit_anywhere_that_matters_is_noticed(position: int, bit: int) -> None:
    memory = MemoryStore()
    store = VerifyingStore(memory)
    store.put("k", DATA)

    def flip(data: bytearray) -> bytearray:
        data[position] ^= 1 << bit
        return data

    _tamper(memory, "k", flip)
    target = bytearray(b"." * len(DATA))
    with pytest.raises(Corrupt):
        store.get("k", memoryview(target))
    assert target == b"." * len(DATA), "not a byte reached the caller's buffer"


@pytest.mark.parametrize("keep", [0, 1, 100, HEADER_BYTES, HEADER_BYTES + 1, HEADER_BYTES + len(DATA) - 1])
def test_a_truncated_object_is_noticed(keep: int) -> None:
    memory = MemoryStore()
    store = VerifyingStore(memory)
    store.put("k", DATA)
    _tamper(memory, "k", lambda data: data[:keep])
    with pytest.raises(Corrupt):
        _read(store)


def test_a_longer_object_is_noticed() -> None:
    memory = MemoryStore()
    store = VerifyingStore(memory)
    store.put("k", DATA)
    _tamper(memory, "k", lambda data: data + b"x")
    with pytest.raises(StoreError):
        _read(store, room=2 * len(DATA))


def test_swapped_and_foreign_objects_are_noticed() -> None:
    memory = MemoryStore()
    store = VerifyingStore(memory)
    store.put("a", DATA)
    store.put("b", DATA[::-1])
    memory._objects["a"], memory._objects["b"] = memory._objects["b"], memory._objects["a"]
    for key in "ab":
        with pytest.raises(Corrupt, match="another key"):
            _read(store, key)


def test_an_object_of_another_engine_is_noticed() -> None:
    memory = MemoryStore()
    VerifyingStore(memory, fingerprint="weights-1").put("k", DATA)
    with pytest.raises(Corrupt, match="fingerprint"):
        _read(VerifyingStore(memory, fingerprint="weights-2"))
    assert _read(VerifyingStore(memory, fingerprint="weights-1")) == DATA


def test_encryption_binds_the_key_and_notices_changes() -> None:
    memory = MemoryStore()
    store = EncryptingStore(memory, master_key=bytes(32))
    store.put("a", DATA)
    assert DATA[:64] not in memory._objects["a"][0]
    memory.put("b", memory._objects["a"][0])
    with pytest.raises(Corrupt):
        _read(store, "b")
    with pytest.raises(Corrupt):
        _read(EncryptingStore(memory, master_key=b"\1" * 32), "a")
    for position in (0, 32, -1):

        def flip(data: bytearray, at: int = position) -> bytearray:
            data[at] ^= 1
            return data

        store.put("a", DATA)
        _tamper(memory, "a", flip)
        with pytest.raises(Corrupt):
            _read(store, "a")
    with pytest.raises(InputError, match="`3` bytes"):
        EncryptingStore(memory, master_key=b"abc")
    assert bytes(32).hex() not in repr(store) + repr(vars(store))


def test_retry_gives_up_at_its_deadline_and_only_retries_what_may_pass() -> None:
    clock, inner = Clock(), Failing()
    inner.put("k", DATA)
    store = RetryingStore(inner, deadline_seconds=2, clock=clock, sleep=clock.sleep)
    inner.error = Unavailable("down")
    with pytest.raises(Unavailable):
        _read(store)
    assert inner.calls > 3
    assert sum(clock.slept) <= 2
    for final in (NotFound("no"), Corrupt("bad"), Denied("no"), Full("no")):
        inner.calls, inner.error = 0, final
        with pytest.raises(type(final)):
            _read(store)
        assert inner.calls == 1
    inner.error = None
    assert _read(store) == DATA


def test_the_breaker_opens_rests_and_tries_again() -> None:
    clock, inner = Clock(), Failing()
    inner.put("k", DATA)
    store = CircuitBreaker(inner, failures_to_open=3, rest_seconds=10, clock=clock)
    inner.error = Unavailable("down")
    for _ in range(3):
        with pytest.raises(Unavailable):
            _read(store)
    assert store.state == "open"
    with pytest.raises(Unavailable, match="left alone"):
        _read(store)
    assert inner.calls == 3, "an open circuit does not ask the store"
    clock.now += 10
    assert store.state == "half-open"
    with pytest.raises(Unavailable, match="down"):
        _read(store)
    assert store.state == "open", "one failed trial opens it again"
    clock.now += 10
    inner.error = None
    assert _read(store) == DATA
    assert store.state == "closed"


def test_answers_that_are_no_failures_keep_the_breaker_closed() -> None:
    inner = Failing()
    store = CircuitBreaker(inner, failures_to_open=2)
    for _ in range(10):
        with pytest.raises(NotFound):
            _read(store)
    assert store.state == "closed"


def test_a_half_open_breaker_lets_one_call_through() -> None:
    clock, inner = Clock(), Failing()
    inner.put("k", DATA)
    store = CircuitBreaker(inner, failures_to_open=1, rest_seconds=1, clock=clock)
    inner.error = Unavailable("down")
    with pytest.raises(Unavailable):
        _read(store)
    clock.now += 1
    inner.error = None
    inner.hang.clear()
    trial = threading.Thread(target=_read, args=(store,))
    trial.start()
    while inner.calls < 2:
        time.sleep(0.001)
    with pytest.raises(Unavailable, match="left alone"):
        _read(store)
    inner.hang.set()
    trial.join(10)
    assert store.state == "closed"


def test_a_hanging_store_is_answered_in_time_and_late_bytes_never_arrive() -> None:
    inner = Failing()
    inner.put("k", DATA)
    store = DeadlineStore(inner, seconds=0.05, stuck_calls=2)
    inner.hang.clear()
    target = bytearray(b"." * len(DATA))
    for _ in range(2):
        with pytest.raises(Deadline):
            store.get("k", memoryview(target))
    assert store.stuck == 2
    begin = time.monotonic()
    with pytest.raises(Unavailable, match="hang"):
        store.get("k", memoryview(target))
    assert time.monotonic() - begin < 0.04
    inner.hang.set()
    for _ in range(200):
        if store.stuck == 0:
            break
        time.sleep(0.01)
    assert store.stuck == 0
    assert target == b"." * len(DATA)
    assert store.get("k", memoryview(target)) == len(DATA)


def test_the_limit_turns_away_who_waits_too_long() -> None:
    inner = Failing()
    inner.put("k", DATA)
    store = LimitedStore(inner, calls=1, patience_seconds=0.02)
    inner.hang.clear()
    first = threading.Thread(target=_read, args=(store,))
    first.start()
    while inner.calls < 1:
        time.sleep(0.001)
    with pytest.raises(Throttled):
        _read(store)
    inner.hang.set()
    first.join(10)
    assert _read(store) == DATA


def test_the_meter_counts_bytes_errors_and_time() -> None:
    inner = Failing()
    store = MeteredStore(inner)
    store.put("k", DATA[:10], DATA[:5])
    _read(store)
    with pytest.raises(NotFound):
        _read(store, "missing")
    counts = store.counts()
    assert (counts["put"].calls, counts["put"].payload_bytes) == (1, 15)
    assert (counts["get"].calls, counts["get"].payload_bytes) == (2, 15)
    assert counts["get"].errors == {"not_found": 1}
    assert sum(counts["get"].buckets) == 2


@pytest.fixture
def filled() -> MemoryStore:
    store = MemoryStore()
    for i in range(10):
        store.put(f"n/{i}", b"x" * 100)
        store._objects[f"n/{i}"] = (b"x" * 100, 1000.0 + i)
    return store


def test_eviction_by_bytes_takes_the_least_recent(filled: MemoryStore) -> None:
    done = evict(filled, capacity_bytes=800, low_water_ratio=0.5, now=lambda: 1010.0)
    assert (done.objects, done.total_bytes, done.evicted_objects, done.kept_bytes) == (10, 1000, 6, 400)
    assert {e.key for e in filled.entries()} == {"n/6", "n/7", "n/8", "n/9"}


def test_eviction_below_capacity_does_nothing(filled: MemoryStore) -> None:
    assert evict(filled, capacity_bytes=1000, now=lambda: 1010.0).freed_bytes == 0


def test_eviction_by_age(filled: MemoryStore) -> None:
    done = evict(filled, max_age_seconds=5, now=lambda: 1010.0)
    assert (done.expired_objects, done.freed_bytes) == (5, 500)


def test_several_engines_write_and_evict_one_store_at_the_same_time(tmp_path: Path) -> None:
    capacity, size = 40 * (HEADER_BYTES + 4096), 4096

    def engine(number: int) -> int:
        store, whole = VerifyingStore(DiskStore(tmp_path), fingerprint="same"), 0
        for i in range(60):
            store.put(f"kv/{(number * 31 + i) % 90}", bytes([i]) * size)
            if i % 5 == 0:
                evict(store, prefix="kv/", capacity_bytes=capacity)
            # Evicted meanwhile is no error; half an object would be.
            with contextlib.suppress(NotFound):
                whole += len(set(_read(store, f"kv/{i}", room=size))) == 1
        return whole

    with ThreadPoolExecutor(3) as engines:
        assert sum(engines.map(engine, range(3))) > 0
    store = DiskStore(tmp_path)
    evict(store, prefix="kv/", capacity_bytes=capacity)
    assert 0 < sum(e.size_bytes for e in store.entries("kv/")) <= capacity


def test_a_dry_run_deletes_nothing(filled: MemoryStore) -> None:
    assert evict(filled, capacity_bytes=0, dry_run=True).evicted_objects == 10
    assert len(list(filled.entries())) == 10


def test_a_full_store_says_so_and_keeps_what_it_has() -> None:
    store = VerifyingStore(MemoryStore(capacity_bytes=HEADER_BYTES + len(DATA)))
    store.put("k", DATA)
    with pytest.raises(Full):
        store.put("l", DATA)
    assert _read(store) == DATA


_ENDLESS_PUTS = """
import os, sys
from warmset.tiers.disk import DiskStore
store = DiskStore(sys.argv[1])
store.put("k", bytes(1 << 20))
print("ready", flush=True)
i = 0
while True:
    i += 1
    store.put("k", bytes([i % 251]) * (1 << 20))
"""


def test_a_writer_killed_in_the_middle_leaves_a_whole_object(tmp_path: Path) -> None:
    for delay in (0.01, 0.03, 0.05):
        writer = subprocess.Popen(
            [sys.executable, "-c", _ENDLESS_PUTS, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        writer.wait(10)
        writer.stdout.close()
        data = _read(DiskStore(tmp_path), room=1 << 20)
        assert len(data) == 1 << 20
        assert len(set(data)) == 1


def test_abandoned_files_are_removed_later_and_never_listed(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.put("k", DATA)
    left = tmp_path / ".unfinished" / "someone"
    left.write_bytes(DATA)
    assert [e.key for e in store.entries()] == ["k"]
    DiskStore(tmp_path)
    assert left.exists(), "a writer may still be at it"
    os.utime(left, (time.time() - 7200, time.time() - 7200))
    DiskStore(tmp_path)
    assert not left.exists()


def test_a_disk_without_space(tmp_path: Path) -> None:
    code = (
        "import resource, signal, sys\n"
        "from warmset.tiers.disk import DiskStore\n"
        "from warmset.tiers.errors import Full\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "store = DiskStore(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
        "try: store.put('k', b'x' * 100000)\n"
        "except Full: print('full', store.exists(['k']))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert ran.stdout == "full [False]\n", ran.stderr
    assert os.listdir(tmp_path / ".unfinished") == []


@pytest.mark.parametrize(
    ("url", "words", "hint"),
    [
        ("/kv", "is not a store", "file:///path"),
        ("ftp://x/y", "is not a store", "file:///path"),
        ("s3://b:port/x", "is not a store", "s3://bucket"),
        ("file://kv/a", "not an absolute path", "like `file:///kv/a`"),
        ("file:kv", "not an absolute path", "like `file:///kv`"),
        ("file:///kv#1", "has a `#` in its path", "%23"),
        ("file:///kv?a", "has a `?` in its path", "%3F"),
        ("s3://", "names no bucket", "s3://name/prefix"),
        ("redis://:6379/0", "names no bucket or host", "redis://name"),
        ("redis://:secret@host/0", "carries a password", "WARMSET_REDIS_PASSWORD"),
        ("redis://user@host/0", "carries a user", "WARMSET_REDIS_PASSWORD"),
        ("redis://host/0?password=secret", "carries options", "WARMSET_REDIS_PASSWORD"),
        ("redis://host/zero", "number of a database", "redis://host/0"),
        ("redis://host/0/prefix", "number of a database", "redis://host/0"),
        ("s3://KEY:secret@bucket/p", "carries a password", "AWS_ACCESS_KEY_ID"),
        ("s3://KEY@bucket/p", "carries a user", "AWS_ACCESS_KEY_ID"),
        ("s3://bucket/p?aws_secret_access_key=secret", "carries options", "AWS_ACCESS_KEY_ID"),
        ("gs://user:secret@bucket", "carries a password", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://user:secret@container", "carries a password", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("redis://u:secret?x@h:6379/0", "is not a store", "redis://host"),
        ("redis://u:x/y?secret@h:6379/0", "is not a store", "redis://host"),
        ("redis://h:6379o/0?password=secret", "is not a store", "redis://host"),
        ("redi://h:6379/0?password=secret", "is not a store", "redis://host"),
    ],
)
def test_urls_that_are_no_store(url: str, words: str, hint: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        open_store(url)
    assert "secret" not in caught.value.message + str(caught.value.hint)
    assert hint in str(caught.value.hint)


def test_a_scheme_may_be_in_capitals(tmp_path: Path) -> None:
    open_store(f"FILE://{tmp_path}").put("k", b"x")
    assert (tmp_path / "k").read_bytes() == b"x"
    pytest.importorskip("obstore")
    store = open_store("S3://bucket/prefix")
    with pytest.raises(StoreError) as caught:
        store.put("k", b"x")
    assert caught.value.message.startswith("`s3://bucket/prefix/k`")


def test_puts_hold_beside_many_that_delete_in_the_same_folders(tmp_path: Path) -> None:
    store, errors = DiskStore(tmp_path), []

    def work(number: int) -> None:
        for turn in range(150):
            key = f"{turn % 2}/{number % 2}/{number}"
            try:
                store.put(key, b"x")
                buffer = bytearray(1)
                assert store.get(key, memoryview(buffer)) == 1
                store.delete([key])
            except StoreError as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_path_is_read_as_urls_write_it(tmp_path: Path) -> None:
    (tmp_path / "a b#1?").mkdir()
    open_store(f"file://{tmp_path}/a%20b%231%3F").put("k", b"x")
    assert (tmp_path / "a b#1?" / "k").read_bytes() == b"x"


def test_deleting_leaves_no_empty_folders(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    for key in ("kv/ns/0/aa/1", "kv/ns/0/aa/2", "kv/ns/0/bb/3", "top"):
        store.put(key, b"x")
    store.delete(["kv/ns/0/aa/1", "kv/ns/0/bb/3", "top"])
    assert sorted(str(path.relative_to(tmp_path)) for path in (tmp_path / "kv").rglob("*")) == [
        *("kv/ns", "kv/ns/0", "kv/ns/0/aa", "kv/ns/0/aa/2")
    ]
    store.delete(["kv/ns/0/aa/2"])
    assert os.listdir(tmp_path) == [".unfinished"]
    store.put("kv/ns/0/aa/1", b"again")
    assert (tmp_path / "kv/ns/0/aa/1").read_bytes() == b"again"


def test_folders_that_come_and_go_cost_no_object(tmp_path: Path) -> None:
    """One thread deletes what shares its folder with what another puts."""
    store = RetryingStore(DiskStore(tmp_path), deadline_seconds=5)
    done = threading.Event()

    def delete() -> None:
        while not done.is_set():
            store.put("a/b/other", b"x")
            store.delete(["a/b/other"])

    thread = threading.Thread(target=delete)
    thread.start()
    try:
        for turn in range(500):
            store.put("a/b/mine", bytes([turn % 256]))
            buffer = bytearray(1)
            assert store.get("a/b/mine", memoryview(buffer)) == 1
            assert buffer[0] == turn % 256
            store.delete(["a/b/mine"])
    finally:
        done.set()
        thread.join()


def test_a_store_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    store = open_store(
        "s3://bucket/kv", StoreOptions(endpoint="http://127.0.0.1:9", region="us-east-1", timeout_seconds=1)
    )
    with pytest.raises(Unavailable):
        _read(store)
    store.close()
