"""Asks a store which blocks it has, without waiting: batched, in prefix order, and with a deadline."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from queue import Empty, SimpleQueue

from warmset.tiers.errors import StoreError
from warmset.tiers.workers import Workers

# Rounds of a probe along a prefix: one block, then ever more while all are there. A cold prompt costs one
# question however long it is; a warm one of n blocks costs n questions in a few rounds.
_FIRST_ROUND, _GROWTH = 1, 8


@dataclass(slots=True)
class _Question:
    """One key that someone asked for. `answer` is None while it is not known, `probe` is 0 until it was sent."""

    key: str
    position: int | None
    group: int
    generation: int
    asked_at: float
    probe: int = 0
    answer: bool | None = None
    requests: set[str] = field(default_factory=set)


@dataclass(slots=True)
class LookupCounts:
    """What lookups came to, since the start."""

    hits: int = 0
    misses: int = 0
    expired: int = 0
    failed: int = 0
    remembered_misses: int = 0
    unavailable: int = 0
    probes: int = 0


class Lookups:
    """Answers `ask` at once with True, False or None (ask again later). All methods belong to one thread, the
    scheduler's; only the probes run on workers.

    `exists` is Store.exists. A key that is not answered within `deadline_seconds` is a miss: a store that hangs costs
    a request that long, once. A miss is remembered for `remember_seconds`, so that a burst of equal cold prompts
    asks once. While `available` is False nothing is asked and everything is a miss.
    """

    def __init__(
        self,
        exists: Callable[[Sequence[str]], list[bool]],
        *,
        deadline_seconds: float,
        remember_seconds: float = 1.0,
        remember_keys: int = 100_000,
        threads: int = 4,
        clock: Callable[[], float] = time.monotonic,
        available: Callable[[], bool] = lambda: True,
        on_expired: Callable[[], None] = lambda: None,
    ) -> None:
        self._available = available
        self._exists = exists
        self._deadline_seconds = deadline_seconds
        self._remember_seconds = remember_seconds
        self._remember_keys = remember_keys
        self._clock = clock
        self._on_expired = on_expired
        self._questions: dict[str, _Question] = {}
        # The questions without an answer, oldest first.
        self._open: dict[str, _Question] = {}
        self._by_request: dict[str, set[str]] = {}
        self._unsent: dict[str, list[_Question]] = {}
        self._missing_until: OrderedDict[str, float] = OrderedDict()
        self._generation = self._sent = 0
        self._answers: SimpleQueue[tuple[int, list[tuple[str, int, bool | None]]]] = SimpleQueue()
        self._busy: dict[int, tuple[float, threading.Thread]] = {}
        self._workers = Workers(threads, "warmset-lookup")
        self._durations: SimpleQueue[float] = SimpleQueue()
        self.counts = LookupCounts()

    def ask(self, request: str, key: str, *, group: int = 0, position: int | None = None) -> bool | None:
        """Whether the store has `key`. `position` is where it ends in the prompt, for the order of probing."""
        question = self._questions.get(key)
        now = self._clock()
        if question is None:
            until = self._missing_until.get(key)
            if until is not None and now < until:
                self.counts.remembered_misses += 1
                return False
            if not self._available():
                self.counts.unavailable += 1
                return False
            self._generation += 1
            question = _Question(key, position, group, self._generation, now)
            self._questions[key] = self._open[key] = question
            self._unsent.setdefault(request, []).append(question)
        question.requests.add(request)
        self._by_request.setdefault(request, set()).add(key)
        if question.answer is None and now - question.asked_at > self._deadline_seconds:
            self._expire(now)
        return question.answer

    def flush(self) -> None:
        """Send what was asked since the last call, one probe per request; take in what has come back."""
        self.collect()
        self._expire(self._clock())
        for questions in self._unsent.values():
            alive = [q for q in questions if self._open.get(q.key) is q]
            if alive:
                self._sent += 1
                for question in alive:
                    question.probe = self._sent
                order = [(q.key, q.generation, q.group, q.position) for q in alive]
                ends_at = alive[0].asked_at + self._deadline_seconds
                self._workers.submit(lambda o=order, e=ends_at: self._probe(o, e))  # type: ignore[misc]
        self._unsent.clear()
        self._replace_hanging()

    def collect(self) -> None:
        """Take in the answers that have come back."""
        while True:
            try:
                probes, batch = self._answers.get_nowait()
            except Empty:
                return
            self.counts.probes += probes
            for key, generation, found in batch:
                question = self._open.get(key)
                # A late answer to a question that expired, or was asked anew, says nothing.
                if question is None or question.generation != generation:
                    continue
                if found is None:
                    self.counts.failed += 1
                elif found:
                    self.counts.hits += 1
                else:
                    self.counts.misses += 1
                self._resolve(question, found=bool(found))

    def durations_seconds(self) -> list[float]:
        """How long the probes took that ended since the last call."""
        ended = []
        while True:
            try:
                ended.append(self._durations.get_nowait())
            except Empty:
                return ended

    def forget(self, request: str) -> None:
        """The request is over: drop what only it asked for."""
        self._unsent.pop(request, None)
        for key in self._by_request.pop(request, ()):
            question = self._questions.get(key)
            if question is None:
                continue
            question.requests.discard(request)
            if not question.requests:
                # Were it kept for its late answer, a store that never answers would keep it forever.
                del self._questions[key]
                self._open.pop(key, None)

    def forget_all(self) -> None:
        """The keys mean something else from now on: drop every question, answer and miss."""
        self._questions.clear()
        self._open.clear()
        self._by_request.clear()
        self._unsent.clear()
        self._missing_until.clear()

    def mark_missing(self, keys: Collection[str]) -> None:
        """These keys could not be loaded, whatever the store says: answer no for a while."""
        for key in keys:
            question = self._questions.get(key)
            if question is not None:
                self._resolve(question, found=False)
            else:
                self._remember_missing(key)

    def mark_stored(self, keys: Collection[str]) -> None:
        """These keys are in the store now."""
        for key in keys:
            self._missing_until.pop(key, None)
            question = self._questions.get(key)
            if question is not None:
                # A request that was told no may live long; another that asks the same must not be told so.
                self._resolve(question, found=True)

    @property
    def hanging(self) -> int:
        """Threads that wait for a store that does not answer."""
        return self._workers.hanging

    @property
    def waiting(self) -> bool:
        """Whether some answer is still awaited."""
        return bool(self._open)

    def shutdown(self) -> None:
        """End the workers."""
        self._workers.shutdown(patience_seconds=1.0)

    def _resolve(self, question: _Question, *, found: bool) -> None:
        question.answer = found
        self._open.pop(question.key, None)
        if not found:
            self._remember_missing(question.key)

    def _expire(self, now: float) -> None:
        """What has waited longer than the deadline is a miss. However many keys a probe has, it fails once."""
        probes: set[int] = set()
        for question in list(self._open.values()):
            if now - question.asked_at <= self._deadline_seconds:
                break
            self.counts.expired += 1
            self._resolve(question, found=False)
            probes.add(question.probe)
        for _ in probes - {0}:
            self._on_expired()

    def _remember_missing(self, key: str) -> None:
        self._missing_until[key] = self._clock() + self._remember_seconds
        self._missing_until.move_to_end(key)
        while len(self._missing_until) > self._remember_keys:
            self._missing_until.popitem(last=False)

    def _probe(self, order: list[tuple[str, int, int, int | None]], ends_at: float) -> None:
        begin = self._clock()
        if begin > ends_at:
            # It waited behind probes that hang: nobody wants the answer any more.
            return
        me = threading.current_thread()
        self._busy[id(order)] = (begin, me)
        found: dict[str, bool | None] = {key: None for key, *_ in order}
        asked: list[int] = []
        try:
            for run in _runs(order):
                if not self._probe_run(run, found, asked):
                    # Every group of layers must have its blocks: one cold group makes the others useless.
                    for key in found:
                        found[key] = found[key] or False
                    break
        except StoreError:
            pass
        except Exception:  # noqa: BLE001 - an answer must come whatever happens; None counts as failed
            found = dict.fromkeys(found)
        finally:
            self._busy.pop(id(order), None)
            self._durations.put(self._clock() - begin)
            self._answers.put((sum(asked), [(key, generation, found[key]) for key, generation, *_ in order]))

    def _probe_run(self, run: "_Run", found: dict[str, bool | None], asked: list[int]) -> bool:
        """Fill in `found` for one run; False if nothing of a prefix is there."""
        start, size = 0, _FIRST_ROUND if run.is_prefix else len(run.keys)
        while start < len(run.keys):
            batch = run.keys[start : start + size]
            asked.append(len(batch))
            answers = self._exists(batch)
            found.update(zip(batch, answers, strict=True))
            if run.is_prefix and not all(answers):
                for key in run.keys[start + len(batch) :]:
                    found[key] = False
                return start > 0 or answers[0]
            start, size = start + len(batch), size * _GROWTH
        return True

    def _replace_hanging(self) -> None:
        now = self._clock()
        for began, thread in self._busy.copy().values():
            if now - began > self._deadline_seconds:
                self._workers.give_up(thread)


@dataclass(frozen=True, slots=True)
class _Run:
    """Keys of one group of layers; `is_prefix` if they were asked from the root on."""

    keys: list[str]
    is_prefix: bool


def _runs(order: list[tuple[str, int, int, int | None]]) -> list[_Run]:
    """Split by group. Full attention asks root first; a window asks from its end, where a miss says nothing of the
    rest: those are asked whole, after the prefixes."""
    groups: dict[int, list[tuple[str, int | None]]] = {}
    for key, _, group, position in order:
        groups.setdefault(group, []).append((key, position))
    runs = []
    for entries in groups.values():
        places = [place for _, place in entries]
        ascending = all(a is not None and b is not None and a < b for a, b in pairwise(places))
        runs.append(_Run([key for key, _ in entries], ascending))
    return sorted(runs, key=lambda run: not run.is_prefix)
