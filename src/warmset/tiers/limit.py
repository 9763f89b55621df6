"""A wrapper that bounds how many calls are under way at once."""

import threading
from collections.abc import Callable
from typing import TypeVar

from warmset.tiers.errors import Throttled
from warmset.tiers.store import Store
from warmset.tiers.wrapper import Wrapper

T = TypeVar("T")


class LimitedStore(Wrapper):
    """At most `calls` at once; one that waits longer than `patience_seconds` for its turn fails with Throttled."""

    hands_on = True

    def __init__(self, inner: Store, *, calls: int, patience_seconds: float = 5.0) -> None:
        super().__init__(inner)
        self._turns = threading.BoundedSemaphore(calls)
        self._patience_seconds = patience_seconds

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        if not self._turns.acquire(timeout=self._patience_seconds):
            raise Throttled(f"no turn for `{operation}` within {self._patience_seconds:g} s")
        try:
            return action()
        finally:
            self._turns.release()
