"""A wrapper that tries transient failures again, within a deadline."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from warmset.tiers.errors import Transient
from warmset.tiers.store import Store
from warmset.tiers.wrapper import Wrapper

T = TypeVar("T")


class RetryingStore(Wrapper):
    """Retries what the backend calls transient, with full jitter between `first_wait_seconds` and the deadline.

    The deadline bounds the start of the last attempt, not its length: an attempt that can hang needs DeadlineStore
    below this wrapper.
    """

    hands_on = True

    def __init__(
        self,
        inner: Store,
        *,
        deadline_seconds: float = 5.0,
        first_wait_seconds: float = 0.02,
        longest_wait_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(inner)
        self._deadline_seconds = deadline_seconds
        self._first_wait_seconds = first_wait_seconds
        self._longest_wait_seconds = longest_wait_seconds
        self._clock, self._sleep = clock, sleep

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        end = self._clock() + self._deadline_seconds
        ceiling = self._first_wait_seconds
        while True:
            try:
                return action()
            except Transient:
                wait = random.uniform(0.5, 1.0) * ceiling  # noqa: S311 - jitter, not a secret
                if self._clock() + wait >= end:
                    raise
                self._sleep(wait)
                ceiling = min(2 * ceiling, self._longest_wait_seconds)
