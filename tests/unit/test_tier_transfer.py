"""Lookups and transfers keep their promises when the store is slow, wrong, full or gone."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from warmset.tiers.breaker import CircuitBreaker
from warmset.tiers.errors import Corrupt, Full, Unavailable
from warmset.tiers.lookup import Lookups
from warmset.tiers.memory import MemoryStore
from warmset.tiers.store import Buffer
from warmset.tiers.transfer import Outcome, Transfers
from warmset.tiers.verify import VerifyingStore

BLOCK = 8192


def eventually(check: Callable[[], object], seconds: float = 5.0) -> object:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := check():
            return result
        time.sleep(0.002)
    raise AssertionError("it did not happen in time")


class Scripted(MemoryStore):
    """Counts probes; hangs while `gate` is cleared; raises `error` if set."""

    def __init__(self) -> None:
        super().__init__()
        self.probed: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None

    def exists(self, keys: Sequence[str]) -> list[bool]:
        self.probed.append(list(keys))
        self.gate.wait(30)
        if self.error:
            raise self.error
        return super().exists(keys)

    def get(self, key: str, into: memoryview) -> int:
        self.gate.wait(30)
        if self.error:
            raise self.error
        return super().get(key, into)

    def put(self, key: str, *parts: Buffer) -> None:
        self.gate.wait(30)
        if self.error:
            raise self.error
        super().put(key, *parts)


def _ask_all(lookups: Lookups, keys: Sequence[str], request: str = "r", group: int = 0) -> list[bool | None]:
    return [lookups.ask(request, k, group=group, position=16 * (i + 1)) for i, k in enumerate(keys)]


def _answers(lookups: Lookups, keys: Sequence[str], request: str = "r", group: int = 0) -> list[bool | None]:
    def answered() -> list[bool | None] | None:
        lookups.flush()
        found = _ask_all(lookups, keys, request, group)
        return found if None not in found else None

    found = eventually(answered)
    assert isinstance(found, list)
    return found


def test_a_cold_prompt_costs_one_probe_however_long() -> None:
    store = Scripted()
    lookups = Lookups(store.exists, deadline_seconds=5)
    keys = [f"k{i}" for i in range(1000)]
    assert _ask_all(lookups, keys) == [None] * 1000
    assert _answers(lookups, keys) == [False] * 1000
    assert sum(map(len, store.probed)) == 1
    lookups.shutdown()


@pytest.mark.parametrize("there", [1, 2, 9, 10, 73, 500, 999, 1000])
def test_a_prefix_is_found_to_its_end(there: int) -> None:
    store = Scripted()
    keys = [f"k{i}" for i in range(1000)]
    for key in keys[:there]:
        store.put(key, b"")
    lookups = Lookups(store.exists, deadline_seconds=5)
    assert _answers(lookups, keys) == [i < there for i in range(1000)]
    assert sum(map(len, store.probed)) <= 9 * there + 1
    assert len(store.probed) <= 5, "few rounds"
    lookups.shutdown()


def test_a_window_is_asked_whole_and_finds_its_tail() -> None:
    store = Scripted()
    keys = [f"k{i}" for i in range(20)]
    for key in keys[5:9]:
        store.put(key, b"")
    lookups = Lookups(store.exists, deadline_seconds=5)

    def ask() -> list[bool | None]:
        return [lookups.ask("r", keys[i], position=16 * (i + 1)) for i in reversed(range(20))]

    def answered() -> list[bool | None] | None:
        lookups.flush()
        return found if None not in (found := ask()) else None

    ask()
    found = eventually(answered)
    assert found == [5 <= i < 9 for i in reversed(range(20))]
    lookups.shutdown()


def test_a_cold_group_makes_the_other_groups_cold_without_asking() -> None:
    store = Scripted()
    lookups = Lookups(store.exists, deadline_seconds=5)
    full = [f"f{i}" for i in range(10)]
    window = [f"w{i}" for i in range(10)]
    for i, key in enumerate(full):
        lookups.ask("r", key, group=0, position=16 * (i + 1))
    for i in reversed(range(10)):
        lookups.ask("r", window[i], group=1, position=16 * (i + 1))
    lookups.flush()
    eventually(lambda: (lookups.collect(), lookups.ask("r", window[9], group=1, position=160) is False)[1])
    assert store.probed == [["f0"]]
    lookups.shutdown()


def test_a_miss_is_remembered_and_forgotten_when_stored() -> None:
    store, now = Scripted(), [0.0]
    lookups = Lookups(store.exists, deadline_seconds=5, remember_seconds=10, clock=lambda: now[0])
    assert _answers(lookups, ["k"], "a") == [False]
    lookups.forget("a")
    assert lookups.ask("b", "k", position=16) is False
    assert len(store.probed) == 1
    store.put("k", b"")
    lookups.mark_stored(["k"])
    assert _answers(lookups, ["k"], "c") == [True]
    lookups.mark_missing(["k"])
    assert lookups.ask("c", "k", position=16) is False, "a load that failed must not be tried again at once"
    lookups.forget("c")
    now[0] += 11
    assert _answers(lookups, ["k"], "d") == [True]
    lookups.shutdown()


def test_a_store_that_hangs_costs_a_request_the_deadline_and_opens_the_breaker() -> None:
    store = Scripted()
    breaker = CircuitBreaker(store, failures_to_open=1, rest_seconds=60)
    lookups = Lookups(
        breaker.exists,
        deadline_seconds=0.1,
        available=lambda: breaker.accepts,
        on_expired=breaker.report_failure,
    )
    store.gate.clear()
    keys = [f"k{i}" for i in range(5)]
    begin = time.monotonic()
    assert _answers(lookups, keys) == [False] * 5
    assert 0.1 <= time.monotonic() - begin < 1
    assert lookups.counts.expired == 5
    assert breaker.state == "open"
    assert lookups.ask("s", "other", position=16) is False, "no request waits any more"
    assert lookups.counts.unavailable == 1
    store.gate.set()
    lookups.shutdown()


def test_a_store_that_fails_is_a_miss() -> None:
    store = Scripted()
    store.error = Unavailable("down")
    lookups = Lookups(store.exists, deadline_seconds=5)
    assert _answers(lookups, ["a", "b"]) == [False, False]
    assert lookups.counts.failed == 2
    lookups.shutdown()


def test_what_nobody_waits_for_is_dropped() -> None:
    store = Scripted()
    store.gate.clear()
    lookups = Lookups(store.exists, deadline_seconds=60)
    _ask_all(lookups, [f"k{i}" for i in range(100)])
    lookups.flush()
    lookups.forget("r")
    assert not lookups.waiting
    assert lookups._questions == {}
    store.gate.set()
    lookups.shutdown()


def test_one_probe_that_hangs_is_one_failure_and_a_question_expires_unasked() -> None:
    store = Scripted()
    failures: list[int] = []
    lookups = Lookups(store.exists, deadline_seconds=0.05, on_expired=lambda: failures.append(1))
    store.gate.clear()
    _ask_all(lookups, [f"k{i}" for i in range(50)])
    lookups.flush()
    time.sleep(0.06)
    lookups.flush()
    assert not lookups.waiting, "nobody needs to ask again"
    assert lookups.counts.expired == 50
    assert failures == [1]
    store.gate.set()
    lookups.shutdown()


def test_a_block_stored_meanwhile_is_found_by_the_next_request() -> None:
    lookups = Lookups(MemoryStore().exists, deadline_seconds=5)
    assert _answers(lookups, ["a"], "long-running") == [False]
    lookups.mark_stored(["a"])
    assert lookups.ask("next", "a", position=16) is True
    lookups.shutdown()


class Bench:
    """A host tier of 8 slots over a store."""

    def __init__(self, store: object, **settings: object) -> None:
        self.memory = memoryview(bytearray(8 * BLOCK)).cast("B", (8, BLOCK))
        self.rows = self.memory.cast("B")
        defaults = {"load_deadline_seconds": 5.0, "store_deadline_seconds": 5.0}
        verifying = store if isinstance(store, VerifyingStore) else VerifyingStore(store)  # type: ignore[arg-type]
        self.transfers = Transfers(verifying, self.memory, **{**defaults, **settings})  # type: ignore[arg-type]

    def fill(self, slot: int, byte: int) -> None:
        self.rows[slot * BLOCK : (slot + 1) * BLOCK] = bytes([byte]) * BLOCK

    def slot(self, slot: int) -> bytes:
        return bytes(self.rows[slot * BLOCK : (slot + 1) * BLOCK])

    def outcome(self) -> Outcome:
        found = eventually(self.transfers.finished)
        assert isinstance(found, list)
        assert len(found) == 1
        assert isinstance(found[0], Outcome)
        return found[0]


def test_blocks_come_back_as_they_went() -> None:
    bench = Bench(VerifyingStore(MemoryStore()))
    for slot in range(4):
        bench.fill(slot, slot + 1)
    bench.transfers.store(1, ["a", "b", "c", "d"], [0, 1, 2, 3])
    stored = bench.outcome()
    assert stored.success
    assert stored.moved_bytes == 4 * BLOCK
    bench.transfers.load(2, ["d", "a"], [6, 7])
    assert bench.outcome().success
    assert bench.slot(6) == b"\4" * BLOCK
    assert bench.slot(7) == b"\1" * BLOCK
    assert bench.slot(5) == b"\0" * BLOCK
    bench.transfers.shutdown()


def test_an_empty_job_ends() -> None:
    bench = Bench(MemoryStore())
    for job, submit in enumerate((bench.transfers.load, bench.transfers.store)):
        submit(job, [], [])
        assert bench.outcome().success
    assert bench.transfers.active == 0
    bench.transfers.shutdown()


@pytest.mark.parametrize("slot", [-1, 8, 10**9])
def test_a_slot_out_of_bounds_fails_and_touches_nothing(slot: int) -> None:
    bench = Bench(VerifyingStore(MemoryStore()))
    bench.fill(0, 9)
    bench.transfers.store(1, ["a", "b"], [0, 1])
    assert bench.outcome().success
    bench.transfers.load(2, ["a", "b"], [3, slot])
    assert bench.outcome().done == ()
    assert bench.slot(3) == b"\0" * BLOCK
    bench.transfers.shutdown()


def test_a_corrupt_block_never_lands_and_is_deleted() -> None:
    memory = MemoryStore()
    bench = Bench(VerifyingStore(memory))
    bench.fill(0, 1)
    bench.fill(1, 2)
    bench.transfers.store(1, ["good", "bad"], [0, 1])
    assert bench.outcome().success
    data = bytearray(memory._objects["bad"][0])
    data[-1] ^= 1
    memory.put("bad", data)
    bench.fill(4, 77)
    bench.transfers.load(2, ["good", "bad"], [3, 4])
    outcome = bench.outcome()
    assert not outcome.success
    assert outcome.done == ("good",)
    assert bench.slot(3) == b"\1" * BLOCK
    assert bench.slot(4) == b"\115" * BLOCK, "untouched"
    assert memory.exists(["good", "bad"]) == [True, False]
    assert bench.transfers.counts.corrupt == 1
    bench.transfers.shutdown()


def test_a_block_of_another_size_is_corrupt() -> None:
    store = VerifyingStore(MemoryStore())
    store.put("short", b"x" * (BLOCK - 1))
    bench = Bench(store)
    bench.transfers.load(1, ["short"], [0])
    assert bench.outcome().done == ()
    assert bench.transfers.counts.corrupt == 1
    store.put("long", b"x" * (BLOCK + 1))
    bench.transfers.load(2, ["long"], [0])
    assert bench.outcome().done == ()
    assert bench.transfers.counts.corrupt == 2
    assert store.exists(["short", "long"]) == [False, False], "or they would never be stored right"
    bench.transfers.shutdown()


def test_a_job_too_large_for_its_deadline_keeps_what_it_got_and_blames_nobody() -> None:
    class Slow(Scripted):
        def get(self, key: str, into: memoryview) -> int:
            time.sleep(0.04)
            return super().get(key, into)

    memory = Slow()
    store = VerifyingStore(memory)
    for i in range(8):
        store.put(f"k{i}", bytes([i]) * BLOCK)
    blamed: list[int] = []
    bench = Bench(store, load_deadline_seconds=0.2, load_threads=1, on_expired=lambda: blamed.append(1))
    bench.transfers.load(1, [f"k{i}" for i in range(8)], list(range(8)))
    outcome = bench.outcome()
    assert outcome.expired
    assert 1 <= len(outcome.done) < 8
    assert outcome.moved_bytes == len(outcome.done) * BLOCK
    assert blamed == []
    assert bench.transfers.hanging == 0
    bench.transfers.shutdown()


def test_shutdown_does_not_wait_for_a_store_that_hangs() -> None:
    store = Scripted()
    store.gate.clear()
    bench = Bench(store, store_deadline_seconds=60)
    bench.transfers.store(1, ["a"], [0])
    time.sleep(0.05)
    begin = time.monotonic()
    bench.transfers.shutdown(patience_seconds=0.1)
    assert time.monotonic() - begin < 2
    assert bench.outcome().expired
    store.gate.set()


def test_a_late_read_cannot_touch_a_slot_that_was_given_away() -> None:
    store = Scripted()
    VerifyingStore(store).put("a", b"\1" * BLOCK)
    expired = []
    bench = Bench(store, load_deadline_seconds=0.05, on_expired=lambda: expired.append(1))
    store.gate.clear()
    bench.transfers.load(1, ["a"], [2])
    outcome = bench.outcome()
    assert outcome.expired
    assert outcome.done == ()
    eventually(lambda: bench.transfers.finished() or expired)
    assert expired == [1]
    bench.fill(2, 55)
    store.gate.set()
    eventually(lambda: bench.transfers.hanging == 0)
    assert bench.slot(2) == b"\67" * BLOCK
    bench.transfers.load(2, ["a"], [3])
    assert bench.outcome().success, "a replaced thread serves on"
    bench.transfers.shutdown()


def test_a_job_that_ends_between_a_copy_and_its_report_does_not_count_the_block() -> None:
    class Lingering(VerifyingStore):
        gate = threading.Event()

        @contextmanager
        def verified(self, key: str, max_bytes: int) -> Iterator[memoryview]:
            with super().verified(key, max_bytes) as payload:
                yield payload
            self.gate.wait(30)

    now = [0.0]
    store = Lingering(MemoryStore())
    store.put("a", b"\1" * BLOCK)
    bench = Bench(store, load_deadline_seconds=1.0, clock=lambda: now[0])
    bench.transfers.load(1, ["a"], [2])
    eventually(lambda: bench.slot(2) == b"\1" * BLOCK)
    now[0] = 2.0
    outcome = bench.outcome()
    assert outcome.expired
    assert (outcome.done, outcome.moved_bytes) == ((), 0)
    store.gate.set()
    bench.transfers.shutdown()


def test_a_job_that_ends_while_it_is_found_overdue_is_reported_once() -> None:
    store, now, calls = Scripted(), [0.0], [0]
    VerifyingStore(store).put("a", b"\1" * BLOCK)

    def clock() -> float:
        if threading.current_thread() is threading.main_thread() and calls[0]:
            calls[0] -= 1
            if calls[0] == 0:
                # What has ended was taken; now the job ends, and its time runs out.
                store.gate.set()
                eventually(bench.transfers._moved.qsize)
                now[0] = 2.0
        return now[0]

    bench = Bench(store, load_deadline_seconds=1.0, clock=clock)
    store.gate.clear()
    bench.transfers.load(1, ["a"], [2])
    calls[0] = 2
    (outcome,) = bench.transfers.finished()
    assert outcome.success
    assert not outcome.expired
    assert bench.transfers.finished() == []
    assert bench.transfers.active == 0
    bench.transfers.shutdown()


def test_a_thread_that_just_came_back_does_not_hang() -> None:
    class Stale(dict[threading.Thread, tuple[float, bool]]):
        def copy(self) -> dict[threading.Thread, tuple[float, bool]]:
            return dict.fromkeys(bench.transfers._workers[True]._threads, (0.0, True))

    blamed: list[int] = []
    bench = Bench(MemoryStore(), on_expired=lambda: blamed.append(1))
    bench.transfers._busy = Stale()
    bench.transfers.finished()
    assert bench.transfers.hanging == 0
    assert blamed == []
    bench.transfers.shutdown()


def test_a_slot_that_changes_hands_while_it_is_stored_is_never_served() -> None:
    memory = MemoryStore()
    store = VerifyingStore(memory)
    slot = bytearray(b"\1" * BLOCK)
    assert not store.put_while(lambda: False, "a", slot)
    assert memory.exists(["a"]) == [False]

    class Slow(MemoryStore):
        def put(self, key: str, *parts: Buffer) -> None:
            # The checksum was taken; now someone else writes into the slot.
            slot[:] = b"\2" * BLOCK
            super().put(key, *parts)

    late = VerifyingStore(Slow())
    assert late.put_while(lambda: True, "a", slot)
    with pytest.raises(Corrupt):
        late.get("a", memoryview(bytearray(BLOCK)))


def test_stores_are_dropped_under_pressure_and_loads_are_not() -> None:
    store = Scripted()
    VerifyingStore(store).put("there", b"\7" * BLOCK)
    bench = Bench(store, queued_store_bytes=2 * BLOCK, store_threads=1)
    store.gate.clear()
    bench.transfers.store(1, ["a", "b"], [0, 1])
    bench.transfers.store(2, ["c"], [2])
    dropped = bench.outcome()
    assert (dropped.job_id, dropped.success) == (2, False)
    assert bench.transfers.counts.dropped == 1
    bench.transfers.load(3, ["there"], [5])
    store.gate.set()
    ended: dict[int, bool] = {}
    eventually(
        lambda: (ended.update({o.job_id: o.success for o in bench.transfers.finished()}), len(ended) == 2)[1]
    )
    assert ended == {1: True, 3: True}
    assert bench.transfers.queued_store_bytes == 0
    bench.transfers.shutdown()


def test_equal_blocks_in_flight_are_stored_once_and_present_ones_not_again() -> None:
    store = Scripted()
    bench = Bench(store, store_threads=2)
    store.gate.clear()
    bench.transfers.store(1, ["a"], [0])
    bench.transfers.store(2, ["a"], [0])
    store.gate.set()
    ended: list[Outcome] = []
    eventually(lambda: (ended.extend(bench.transfers.finished()), len(ended) == 2)[1])
    assert sum(outcome.moved_bytes for outcome in ended) == BLOCK, "what was there already was not moved"
    bench.transfers.store(3, ["a"], [0])
    assert bench.outcome().success
    assert bench.transfers.counts.stored == 1
    assert bench.transfers.counts.already_stored == 2
    bench.transfers.shutdown()


@pytest.mark.parametrize("error", [Full("full"), Unavailable("down"), ZeroDivisionError("a bug")])
def test_every_job_ends_in_an_outcome(error: Exception) -> None:
    store = Scripted()
    full = []
    bench = Bench(store, on_full=lambda: full.append(1))
    store.error = error
    bench.transfers.store(1, ["a", "b"], [0, 1])
    assert bench.outcome().done == ()
    bench.transfers.load(2, ["a"], [0])
    assert bench.outcome().done == ()
    assert bench.transfers.active == 0
    assert (full != []) == isinstance(error, Full)
    bench.transfers.shutdown()


def test_drain_waits_for_what_moves_and_keeps_the_outcomes() -> None:
    bench = Bench(VerifyingStore(MemoryStore()))
    for job in range(20):
        bench.transfers.store(job, [f"k{job}"], [job % 8])
    bench.transfers.drain()
    assert sorted(o.job_id for o in bench.transfers.finished()) == list(range(20))
    bench.transfers.shutdown()


def test_no_threads_are_left() -> None:
    before = threading.active_count()
    bench = Bench(MemoryStore())
    lookups = Lookups(MemoryStore().exists, deadline_seconds=1)
    bench.transfers.store(1, ["a"], [0])
    bench.transfers.shutdown()
    lookups.shutdown()
    assert bench.outcome().success
    eventually(lambda: threading.active_count() <= before)
