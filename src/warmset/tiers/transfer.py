"""Moves blocks between the slots of a host tier and a store: in the background, in time, verified before they land."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from queue import Empty, SimpleQueue

from warmset.tiers.buffers import copy_bytes
from warmset.tiers.errors import Corrupt, Full, NotFound, StoreError, TooLarge
from warmset.tiers.verify import VerifyingStore
from warmset.tiers.workers import Workers

_STORED_TOGETHER = 8


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended. `done` are the keys that are in their slots (load) or in the store (store); `moved_bytes`
    leaves out blocks that were in the store already."""

    job_id: int
    is_load: bool
    keys: tuple[str, ...]
    done: tuple[str, ...]
    seconds: float
    moved_bytes: int
    expired: bool

    @property
    def success(self) -> bool:
        """Whether every key was moved."""
        return len(self.done) == len(self.keys)


@dataclass(slots=True)
class TransferCounts:
    """What transfers came to, since the start, in blocks."""

    loaded: int = 0
    stored: int = 0
    already_stored: int = 0
    corrupt: int = 0
    vanished: int = 0
    full: int = 0
    failed: int = 0
    expired: int = 0
    dropped: int = 0


@dataclass(slots=True, eq=False)
class _Job:
    job_id: int
    is_load: bool
    keys: tuple[str, ...]
    ends_at: float
    began_at: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    remaining: int = 0
    done: list[str] = field(default_factory=list)
    moved_bytes: int = 0
    closed: bool = False


# Moves one block of a job, and says how many bytes that took; None if it was not moved.
_Action = Callable[[_Job, str, int], int | None]


class Transfers:
    """Loads go before stores and never wait behind them.

    `slots` is the host tier, one row per slot. A block that is loaded is read and verified in a buffer of its own and
    copied into its slot only if the job is still open: a read that comes back after its deadline cannot touch a slot
    that has been given to someone else. A block that is stored is written from its slot: if the job's time runs out
    meanwhile and the slot changes hands, what was written does not match its checksum and is never used.
    """

    def __init__(
        self,
        store: VerifyingStore,
        slots: memoryview,
        *,
        load_deadline_seconds: float,
        store_deadline_seconds: float,
        load_threads: int = 16,
        store_threads: int = 32,
        queued_store_bytes: int = 1 << 30,
        clock: Callable[[], float] = time.monotonic,
        on_expired: Callable[[], None] = lambda: None,
        on_full: Callable[[], None] = lambda: None,
    ) -> None:
        rows = slots.cast("B")
        self._block_bytes = slots.strides[0] if slots.strides else slots.nbytes
        self._slots = rows
        self._slot_count = rows.nbytes // self._block_bytes
        self._store = store
        self._deadlines = {True: load_deadline_seconds, False: store_deadline_seconds}
        self._clock = clock
        self._on_expired, self._on_full = on_expired, on_full
        self._workers = {
            True: Workers(load_threads, "warmset-load"),
            False: Workers(store_threads, "warmset-store"),
        }
        # When each thread's present call into the store began.
        self._busy: dict[threading.Thread, tuple[float, bool]] = {}
        self._busy_lock = threading.Lock()
        # Jobs that have not ended. Those of one direction share a deadline: the first in its row is the first overdue.
        self._open: dict[bool, dict[int, _Job]] = {True: {}, False: {}}
        # Jobs whose last block is done, from the threads that did it: looking through all open ones at every step
        # of the scheduler would keep those threads from the interpreter.
        self._moved: SimpleQueue[_Job] = SimpleQueue()
        self._ready: list[Outcome] = []
        self._storing: set[str] = set()
        self._storing_lock = threading.Lock()
        self._count_lock = threading.Lock()
        self._removed: SimpleQueue[str] = SimpleQueue()
        self._queued_store_bytes = 0
        self._queue_limit_bytes = queued_store_bytes
        self.counts = TransferCounts()

    def load(self, job_id: int, keys: Sequence[str], slots: Sequence[int]) -> None:
        """Fill `slots` from the store. Never raises: the outcome says what happened."""
        self._submit(job_id, True, keys, slots)

    def store(self, job_id: int, keys: Sequence[str], slots: Sequence[int]) -> None:
        """Put `slots` into the store. Dropped, as a failed outcome, while too much is queued."""
        self._submit(job_id, False, keys, slots)

    def finished(self) -> list[Outcome]:
        """The jobs that ended, or ran out of time, since the last call; every job appears exactly once."""
        ended, self._ready = self._ready, []
        return ended + self._ended()

    def take_removed(self) -> list[str]:
        """The keys that were corrupt and are deleted, since the last call."""
        return [self._removed.get_nowait() for _ in range(self._removed.qsize())]

    @property
    def active(self) -> int:
        """Jobs that have not been reported yet."""
        return sum(map(len, self._open.values())) + len(self._ready)

    @property
    def queued_store_bytes(self) -> int:
        """Bytes of the stores that have not ended."""
        return self._queued_store_bytes

    @property
    def hanging(self) -> int:
        """Threads that wait for a store that does not answer."""
        return sum(workers.hanging for workers in self._workers.values())

    def drain(self) -> None:
        """Return when every job has ended or run out of time; outcomes wait for `finished`.

        Nothing writes to a slot any more then. A store that hangs may still read one: what it puts is never used.
        """
        self._drain_until(float("inf"))

    def shutdown(self, patience_seconds: float = 5.0) -> None:
        """Let what has begun end within `patience_seconds`, give up the rest, and end the threads."""
        end = self._clock() + patience_seconds
        self._drain_until(end)
        self._ready += [self._close(job) for jobs in self._open.values() for job in list(jobs.values())]
        for workers in self._workers.values():
            workers.shutdown(max(0.5, end - self._clock()))

    def _drain_until(self, end: float) -> None:
        while any(self._open.values()) and self._clock() < end:
            self._ready += self._ended(wait_seconds=0.01)

    def _ended(self, wait_seconds: float = 0.0) -> list[Outcome]:
        """Close what has ended or run out of time; with nothing ended yet, wait so long for a first one."""
        self._give_up_hanging()
        ended = [self._close(job) for job in self._take_moved(wait_seconds) if not job.closed]
        return ended + [self._close(job) for job in self._overdue()]

    def _take_moved(self, wait_seconds: float) -> list[_Job]:
        with suppress(Empty):
            first = self._moved.get(timeout=wait_seconds) if wait_seconds else self._moved.get_nowait()
            return [first, *(self._moved.get_nowait() for _ in range(self._moved.qsize()))]
        return []

    def _overdue(self) -> list[_Job]:
        now = self._clock()
        return [
            job
            for jobs in self._open.values()
            for job in takewhile(lambda job: now > job.ends_at, jobs.values())
        ]

    def _close(self, job: _Job) -> Outcome:
        """The outcome of a job that no thread will change any more; it has expired if blocks are left."""
        with job.lock:
            job.closed = True
        del self._open[job.is_load][job.job_id]
        if not job.is_load:
            self._queued_store_bytes -= len(job.keys) * self._block_bytes
        if job.remaining:
            self._count("expired", job.remaining)
        return self._outcome(job, expired=job.remaining > 0)

    def _give_up_hanging(self) -> None:
        """Replace the threads whose call has not come back for a deadline. Only such a call says that the store hangs:
        a job that is merely too large for its deadline says nothing."""
        now = self._clock()
        for thread, call in self._busy.copy().items():
            began_at, is_load = call
            if now - began_at <= self._deadlines[is_load]:
                continue
            with self._busy_lock:
                # Unless it came back just now: its thread is free, and would count as hanging until its next task.
                gave_up = self._busy.get(thread) is call and self._workers[is_load].give_up(thread)
            if gave_up:
                self._on_expired()

    def _submit(self, job_id: int, is_load: bool, keys: Sequence[str], slots: Sequence[int]) -> None:
        now = self._clock()
        job = _Job(job_id, is_load, tuple(keys), now + self._deadlines[is_load], now, remaining=len(keys))
        if len(keys) != len(slots) or not all(0 <= slot < self._slot_count for slot in slots):
            # Nothing may be copied for a job whose slots are wrong.
            self._count("failed", len(keys))
            self._ready.append(self._outcome(job, expired=False))
            return
        if not is_load:
            size = len(keys) * self._block_bytes
            if self._queued_store_bytes and self._queued_store_bytes + size > self._queue_limit_bytes:
                self._count("dropped", len(keys))
                self._ready.append(self._outcome(job, expired=False))
                return
            self._queued_store_bytes += size
        self._open[is_load][job_id] = job
        if not keys:
            self._moved.put(job)
        blocks = [(key, int(slot)) for key, slot in zip(keys, slots, strict=True)]
        # A request waits for a load: every thread helps, and one block that hangs holds up no other. Nobody waits for a
        # store, and waking a thread for every block costs what its checksum costs.
        together = 1 if is_load else _STORED_TOGETHER
        for start in range(0, len(blocks), together):
            self._workers[is_load].submit(partial(self._run, job, blocks[start : start + together]))

    def _run(self, job: _Job, blocks: Sequence[tuple[str, int]]) -> None:
        keys = [key for key, _ in blocks]
        there: dict[str, bool] = {}

        def in_store(key: str) -> bool:
            if not there:
                there.update(zip(keys, self._store.exists(keys), strict=True))
            return there[key]

        action = self._load_block if job.is_load else partial(self._store_block, in_store)
        for key, slot in blocks:
            self._run_block(job, key, slot, action)

    def _run_block(self, job: _Job, key: str, slot: int, action: _Action) -> None:
        if job.closed:
            return
        me = threading.current_thread()
        self._busy[me] = (self._clock(), job.is_load)
        moved_bytes: int | None = None
        try:
            moved_bytes = action(job, key, slot)
        except (Corrupt, TooLarge):
            # An object that is too large for a block is no block either: left there, it would never be replaced.
            self._count("corrupt")
            self._remove(key)
        except NotFound:
            self._count("vanished")
        except Full:
            self._count("full")
            self._on_full()
        except StoreError:
            self._count("failed")
        except Exception:  # noqa: BLE001 - every job ends in an outcome; this block's is failure
            self._count("failed")
        finally:
            with self._busy_lock:
                del self._busy[me]
            with job.lock:
                if not job.closed:
                    if moved_bytes is not None:
                        job.done.append(key)
                        job.moved_bytes += moved_bytes
                    job.remaining -= 1
                    if job.remaining == 0:
                        self._moved.put(job)

    def _load_block(self, job: _Job, key: str, slot: int) -> int | None:
        with self._store.verified(key, self._block_bytes) as payload:
            if payload.nbytes != self._block_bytes:
                raise Corrupt(f"object `{key}` has {payload.nbytes} bytes, a block {self._block_bytes}")
            with job.lock:
                if job.closed:
                    return None
                copy_bytes(self._row(slot), payload)
        self._count("loaded")
        return self._block_bytes

    def _store_block(self, in_store: Callable[[str], bool], job: _Job, key: str, slot: int) -> int | None:
        with self._storing_lock:
            if key in self._storing:
                # Another request stores the same block at this moment; whether that works is not known yet.
                self._count("already_stored")
                return None
            self._storing.add(key)
        try:
            if in_store(key):
                self._count("already_stored")
                return 0
            # From the slot itself: it is the job's as long as the job is open.
            if not self._store.put_while(lambda: not job.closed, key, self._row(slot)):
                return None
            self._count("stored")
            return self._block_bytes
        finally:
            with self._storing_lock:
                self._storing.discard(key)

    def _count(self, name: str, blocks: int = 1) -> None:
        # Threads count at the same time, and `+=` on an attribute is not atomic.
        with self._count_lock:
            setattr(self.counts, name, getattr(self.counts, name) + blocks)

    def _row(self, slot: int) -> memoryview:
        return self._slots[slot * self._block_bytes : (slot + 1) * self._block_bytes]

    def _remove(self, key: str) -> None:
        try:
            self._store.delete([key])
            self._removed.put(key)
        except StoreError:
            # It will be found corrupt again, and never used.
            self._count("failed")

    def _outcome(self, job: _Job, *, expired: bool) -> Outcome:
        moved = set(job.done)
        done = tuple(key for key in job.keys if key in moved)
        return Outcome(
            job.job_id,
            job.is_load,
            job.keys,
            done,
            self._clock() - job.began_at,
            job.moved_bytes,
            expired,
        )
