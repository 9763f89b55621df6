"""A wrapper that counts calls, bytes, errors and time, for metrics and reports."""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from warmset.tiers.errors import StoreError
from warmset.tiers.store import Buffer, Store
from warmset.tiers.wrapper import Wrapper

T = TypeVar("T")

# Upper bounds of the latency buckets: a page-cache hit to an object store in trouble.
LATENCY_BOUNDS_SECONDS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
)


@dataclass(slots=True)
class OperationCounts:
    """What one kind of call has done so far; `buckets` are per bound, the last one beyond all bounds."""

    calls: int = 0
    payload_bytes: int = 0
    seconds: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_SECONDS) + 1))


class MeteredStore(Wrapper):
    """Counts per operation; errors by their class name, in snake case as metric labels are."""

    def __init__(self, inner: Store, *, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(inner)
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, OperationCounts] = {}

    def counts(self) -> dict[str, OperationCounts]:
        """A copy of the counts, by operation."""
        with self._lock:
            return {
                name: OperationCounts(c.calls, c.payload_bytes, c.seconds, dict(c.errors), list(c.buckets))
                for name, c in self._counts.items()
            }

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get."""
        size = super().get(key, into)
        self._add_bytes("get", size)
        return size

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        super().put(key, *parts)
        self._add_bytes("put", sum(memoryview(part).nbytes for part in parts))

    def _add_bytes(self, operation: str, size_bytes: int) -> None:
        with self._lock:
            self._counts[operation].payload_bytes += size_bytes

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        begin, failed = self._clock(), None
        try:
            return action()
        except StoreError as error:
            failed = "".join("_" + c.lower() if c.isupper() else c for c in type(error).__name__).lstrip("_")
            raise
        finally:
            took = self._clock() - begin
            with self._lock:
                counts = self._counts.setdefault(operation, OperationCounts())
                counts.calls += 1
                counts.seconds += took
                counts.buckets[bisect_left(LATENCY_BOUNDS_SECONDS, took)] += 1
                if failed:
                    counts.errors[failed] = counts.errors.get(failed, 0) + 1
