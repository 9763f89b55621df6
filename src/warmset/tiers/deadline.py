"""A wrapper that answers in time also when the store below hangs."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from mmap import mmap
from typing import TypeVar

from warmset.tiers.buffers import whole_pages
from warmset.tiers.errors import Deadline, Unavailable
from warmset.tiers.store import Buffer, Store, flat
from warmset.tiers.wrapper import Wrapper

T = TypeVar("T")


class DeadlineStore(Wrapper):
    """Fails with Deadline after `seconds`, and leaves the hanging call behind in its own thread.

    A read from a stalled disk or NFS server cannot be interrupted. It goes on in a thread of its own, on buffers of
    its own: bytes that arrive late never reach the caller. At most `stuck_calls` calls may hang at once; while
    they do, further ones fail at once with Unavailable.
    """

    def __init__(self, inner: Store, *, seconds: float, stuck_calls: int = 16) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._stuck_calls = stuck_calls
        self._stuck = 0
        self._lock = threading.Lock()

    @property
    def stuck(self) -> int:
        """Calls that missed their deadline and have not come back yet."""
        with self._lock:
            return self._stuck

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get."""
        target = flat(into)

        def read() -> memoryview:
            own = memoryview(mmap(-1, whole_pages(target.nbytes)))[: target.nbytes]
            return own[: self._inner.get(key, own)]

        data = self._call("get", read)
        target[: data.nbytes] = data
        return data.nbytes

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        # A put that outlives its deadline must not read buffers that the caller has reused.
        own = b"".join(flat(part) for part in parts)
        self._call("put", lambda: self._inner.put(key, own))

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        if self.stuck >= self._stuck_calls:
            raise Unavailable(f"{self._stuck_calls} calls hang in the store; no more are sent")
        future: Future[T] = Future()
        late = threading.Event()

        def run() -> None:
            try:
                future.set_result(action())
            except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
                future.set_exception(error)
            finally:
                with self._lock:
                    if late.is_set():
                        self._stuck -= 1

        threading.Thread(target=run, name=f"warmset-{operation}", daemon=True).start()
        try:
            return future.result(self._seconds)
        except FutureTimeoutError:
            with self._lock:
                if not future.done():
                    late.set()
                    self._stuck += 1
            if late.is_set():
                raise Deadline(f"`{operation}` did not end within {self._seconds:g} s") from None
            return future.result()
