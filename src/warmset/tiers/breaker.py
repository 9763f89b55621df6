"""A wrapper that stops asking a store that is down, and asks again now and then."""

import threading
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from warmset.tiers.errors import Denied, StoreError, Transient, Unavailable
from warmset.tiers.store import Store
from warmset.tiers.wrapper import Wrapper

T = TypeVar("T")
State = Literal["closed", "open", "half-open"]


class CircuitBreaker(Wrapper):
    """Opens after `failures_to_open` failures in a row; after `rest_seconds` one call tries the store.

    A failure is a transient error or refused credentials. While open, every call fails at once with
    Unavailable, so that no request waits for a store that does not answer.
    """

    hands_on = True

    def __init__(
        self,
        inner: Store,
        *,
        failures_to_open: int = 5,
        rest_seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inner)
        self._failures_to_open = failures_to_open
        self._rest_seconds = rest_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_at: float | None = None
        self._trying = False

    @property
    def state(self) -> State:
        """`closed` is healthy; `half-open` means that the next call tries the store."""
        with self._lock:
            if self._opened_at is None:
                return "closed"
            return "half-open" if self._clock() - self._opened_at >= self._rest_seconds else "open"

    @property
    def accepts(self) -> bool:
        """Whether a call would reach the store now."""
        with self._lock:
            if self._opened_at is None:
                return True
            return not self._trying and self._clock() - self._opened_at >= self._rest_seconds

    def report_failure(self) -> None:
        """Count a failure that the caller noticed: a call that has not come back in time."""
        self._failed(trial=False)

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        trial = self._admit()
        try:
            result = action()
        except (Transient, Denied):
            self._failed(trial)
            raise
        except StoreError:
            # The store answered (not found, corrupt, full): it is up.
            self._worked(trial)
            raise
        except BaseException:
            self._abandoned(trial)
            raise
        self._worked(trial)
        return result

    def _admit(self) -> bool:
        """Let a call through; True if it is the one that tries an open circuit."""
        with self._lock:
            if self._opened_at is None:
                return False
            if self._trying or self._clock() - self._opened_at < self._rest_seconds:
                raise Unavailable("the store failed repeatedly and is left alone for a while")
            self._trying = True
            return True

    def _worked(self, trial: bool) -> None:
        with self._lock:
            # A late answer to an old call says nothing about a circuit that has opened since.
            if trial or self._opened_at is None:
                self._failures, self._opened_at = 0, None
            self._trying = self._trying and not trial

    def _failed(self, trial: bool) -> None:
        with self._lock:
            self._failures += 1
            if trial or (self._opened_at is None and self._failures >= self._failures_to_open):
                self._opened_at = self._clock()
            self._trying = self._trying and not trial

    def _abandoned(self, trial: bool) -> None:
        with self._lock:
            self._trying = self._trying and not trial
