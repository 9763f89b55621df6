"""Transfers against a naive model: every job once, in time, and no slot touched after its job was reported."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warmset.tiers.buffers import BufferPool
from warmset.tiers.errors import Corrupt, Full, NotFound, StoreError, Unavailable
from warmset.tiers.memory import MemoryStore
from warmset.tiers.store import Buffer
from warmset.tiers.transfer import Outcome, Transfers
from warmset.tiers.verify import VerifyingStore

BLOCK = 4096
SLOTS = 400
LOAD_SECONDS, STORE_SECONDS = 5.0, 8.0
QUEUE_BYTES = 24 * BLOCK
THREADS = 8
GIVEN_AWAY = 255

# What a key begins with says what becomes of its block: whether it can be moved at all.
LOADS = {"there": True, "missing": False, "corrupt": False, "short": False, "down": False, "hang": True}
STORES = {"new": True, "old": True, "full": False, "down": False, "bug": False, "hang": True}
# One answer is for several blocks: without it none of them is stored.
STORES_ASKED = {**STORES, "unanswered": False, "mute": True}
HANGING = ("hang", "mute")


class Clock:
    """Stands still, or moves by `step` whenever it is read."""

    def __init__(self) -> None:
        self.now, self.step = 100.0, 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Moody(MemoryStore):
    """Does to a key what its first word says; what hangs goes on when `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def exists(self, keys: Sequence[str]) -> list[bool]:
        if any(key.startswith("mute") for key in keys):
            self.gate.wait(30)
        if any(key.startswith("unanswered") for key in keys):
            raise Unavailable("no answer")
        return [key.startswith("old") for key in keys]

    def get(self, key: str, into: memoryview) -> int:
        self._suffer(key)
        return super().get(key, into)

    def put(self, key: str, *parts: Buffer) -> None:
        self._suffer(key)
        super().put(key, *parts)

    def _suffer(self, key: str) -> None:
        match key.partition("-")[0]:
            case "hang":
                self.gate.wait(30)
            case "down":
                raise Unavailable("down")
            case "full":
                raise Full("full")
            case "bug":
                raise ZeroDivisionError("a bug")


@dataclass
class Job:
    """What a naive reader of the interface expects of a job."""

    is_load: bool
    keys: tuple[str, ...]
    slots: tuple[int, ...]
    ends_at: float
    refused: bool
    outcome: Outcome | None = None

    @property
    def hangs(self) -> bool:
        return not self.refused and any(key.startswith(HANGING) for key in self.keys)

    @property
    def good(self) -> set[str]:
        """The keys that can be moved."""
        kinds = LOADS if self.is_load else STORES_ASKED
        return {key for key in self.keys if kinds[key.partition("-")[0]] and not self.refused}

    @property
    def is_certain(self) -> bool:
        """Whether no other block of the job decides what becomes of the good ones."""
        return not any(key.startswith((*HANGING, "unanswered")) for key in self.keys)


@dataclass
class World:
    """Transfers over a moody store, and the model beside them."""

    clock: Clock = field(default_factory=Clock)
    store: Moody = field(default_factory=Moody)
    jobs: dict[int, Job] = field(default_factory=dict)
    hanging: list[str] = field(default_factory=list)
    used_slots: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        self.rows = memoryview(bytearray(SLOTS * BLOCK))
        # A pool that keeps nothing, so that buffers are made and dropped all the time.
        self.verifying = VerifyingStore(self.store, pool=BufferPool(keep_bytes=0))
        self.transfers = Transfers(
            self.verifying,
            self.rows.cast("B", (SLOTS, BLOCK)),
            load_deadline_seconds=LOAD_SECONDS,
            store_deadline_seconds=STORE_SECONDS,
            load_threads=THREADS,
            store_threads=THREADS,
            queued_store_bytes=QUEUE_BYTES,
            clock=self.clock,
        )

    def submit(self, is_load: bool, kinds: Sequence[str], bad_slot: int | None) -> None:
        number = len(self.jobs)
        hanging = sum(key.startswith(HANGING) for key in (*kinds, *self.hanging))
        if self.used_slots + len(kinds) > SLOTS or hanging >= THREADS:
            # With all threads hanging nothing would be certain any more.
            return
        keys = tuple(f"{kind}-{number}-{i}" for i, kind in enumerate(kinds))
        slots = list(range(self.used_slots, self.used_slots + len(keys)))
        self.used_slots += len(keys)
        self.hanging += keys
        for key, slot in zip(keys, slots, strict=True):
            self._prepare(is_load, key, slot)
        refused = bool(slots) and bad_slot is not None
        if refused:
            slots[len(slots) // 2] = bad_slot  # type: ignore[assignment]
        if not is_load and not refused:
            queued = sum(len(j.keys) for j in self._open() if not j.is_load and not j.refused) * BLOCK
            assert queued == self.transfers.queued_store_bytes
            refused = bool(queued) and queued + len(keys) * BLOCK > QUEUE_BYTES
        seconds = LOAD_SECONDS if is_load else STORE_SECONDS
        self.jobs[number] = Job(is_load, keys, tuple(slots), self.clock.now + seconds, refused)
        (self.transfers.load if is_load else self.transfers.store)(number, keys, slots)

    def poll(self) -> None:
        overdue = [job for job in self._open() if job.ends_at < self.clock.now]
        self.take(self.transfers.finished())
        assert all(job.outcome for job in overdue), "late"
        assert self.transfers.active == len(self._open())

    def settle(self) -> None:
        """Wait for all that does not hang."""
        end = time.monotonic() + 10
        while any(not job.hangs for job in self._open()):
            self.poll()
            assert time.monotonic() < end, "a job got lost"
            time.sleep(0.0005)

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds

    def drain(self) -> None:
        self.settle()
        self.clock.step = 0.5
        self.transfers.drain()
        self.clock.step = 0.0
        # Every open job has waited for its deadline, and not for this call.
        self.take(self.transfers.finished())
        assert not self._open()

    def release(self) -> None:
        self.store.gate.set()
        self.settle()
        self.store.gate = threading.Event()
        self.hanging.clear()

    def take(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            job = self.jobs[outcome.job_id]
            assert job.outcome is None, "twice"
            job.outcome = outcome
            self._check(job, outcome)
            for slot in job.slots:
                if 0 <= slot < SLOTS:
                    self.rows[slot * BLOCK : (slot + 1) * BLOCK] = bytes([GIVEN_AWAY]) * BLOCK

    def end(self) -> None:
        """Shut down at once, with whatever is open, then let everything that hangs come back."""
        self.ended = True
        self.clock.step = 0.5
        # Soon enough that the threads are not waited for in vain.
        waker = threading.Timer(0.03, self.store.gate.set)
        waker.start()
        self.transfers.shutdown(patience_seconds=1.0)
        self.clock.step = 0.0
        waker.join()
        self.take(self.transfers.finished())
        assert all(job.outcome for job in self.jobs.values())
        assert self.transfers.active == self.transfers.queued_store_bytes == 0
        end = time.monotonic() + 10
        while self.transfers.hanging or self.transfers._busy:
            assert time.monotonic() < end, "a thread got lost"
            time.sleep(0.0005)
        given_away = [s for job in self.jobs.values() for s in job.slots if 0 <= s < SLOTS]
        assert all(self.slot(s) == bytes([GIVEN_AWAY]) * BLOCK for s in given_away), "a slot was touched late"
        self._check_stored()

    def slot(self, slot: int) -> bytes:
        return bytes(self.rows[slot * BLOCK : (slot + 1) * BLOCK])

    def _open(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.outcome is None]

    def _check(self, job: Job, outcome: Outcome) -> None:
        assert (outcome.is_load, outcome.keys) == (job.is_load, job.keys)
        done = set(outcome.done)
        assert done <= job.good
        assert outcome.moved_bytes == BLOCK * sum(not key.startswith("old") for key in done)
        if job.refused:
            assert not outcome.expired
        elif outcome.expired:
            assert self.ended or job.ends_at < self.clock.now, "given up too early"
        elif job.is_certain:
            assert done == job.good
        for key, slot in zip(job.keys, job.slots, strict=True):
            if job.is_load and not job.refused and not outcome.expired:
                assert self.slot(slot) == (_content(key) if key in done else bytes(BLOCK))

    def _check_stored(self) -> None:
        buffer, plain = bytearray(BLOCK), MemoryStore()
        plain._objects = self.store._objects
        verifying = VerifyingStore(plain)
        stored = {key for job in self.jobs.values() if not job.is_load for key in job.outcome.done}  # type: ignore[union-attr]
        for job in self.jobs.values():
            for key in () if job.is_load else job.keys:
                try:
                    size = verifying.get(key, memoryview(buffer))
                    assert bytes(buffer[:size]) == _content(key)
                except StoreError as error:
                    # Never put, or from a slot that was given away meanwhile.
                    assert isinstance(error, (Corrupt, NotFound))
                    assert key not in stored or key.startswith("old")

    def _prepare(self, is_load: bool, key: str, slot: int) -> None:
        content = _content(key)
        if not is_load:
            self.rows[slot * BLOCK : (slot + 1) * BLOCK] = content
        elif key.startswith(("there", "hang", "corrupt", "short")):
            maker = VerifyingStore(memory := MemoryStore())
            maker.put(key, content[: BLOCK - 1] if key.startswith("short") else content)
            data = bytearray(memory._objects[key][0])
            data[-1] ^= key.startswith("corrupt")
            self.store._objects[key] = (bytes(data), 0.0)


def _content(key: str) -> bytes:
    return (key.encode() * BLOCK)[:BLOCK]


def _job(kinds: dict[str, bool], is_load: bool) -> st.SearchStrategy[tuple[object, ...]]:
    # What goes well is likely, else no job would; what hangs is not, or all would.
    well = [k for k, good in kinds.items() if good and k not in HANGING]
    kind = st.sampled_from(well * (12 // len(well)) + list(kinds))
    bad_slots = st.sampled_from([None] * 8 + [-1, SLOTS, 10**9])
    size = st.sampled_from([0, 1, 2, 3, 8, 9, 17])
    keys = size.flatmap(lambda n: st.lists(kind, min_size=n, max_size=n))
    return st.tuples(st.just("submit"), st.just(is_load), keys, bad_slots)


STEPS = st.one_of(
    _job(LOADS, True),
    _job(STORES_ASKED, False),
    st.tuples(st.sampled_from(["poll", "settle"])),
    st.tuples(st.just("advance"), st.sampled_from([0.5, 4.5, 5.0, 5.5, 8.0, 8.5])),
    st.tuples(st.sampled_from(["poll", "drain", "release"])),
)


@given(steps=st.lists(STEPS, max_size=25))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_transfers_keep_their_promises(steps: list[tuple[object, ...]]) -> None:
    world = World()
    try:
        for name, *arguments in steps:
            getattr(world, str(name))(*arguments)
    finally:
        world.store.gate.set() if world.ended else world.end()
