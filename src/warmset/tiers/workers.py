"""Threads that run tasks, and that can be given up when a task never returns."""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue


class Workers:
    """A fixed number of daemon threads; a thread whose task hangs can be replaced.

    Not `concurrent.futures`: its threads are joined at exit, so one read from a stalled disk would keep the server from
    ending.
    """

    def __init__(self, threads: int, name: str, *, replacements: int = 32) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._name = name
        self._lock = threading.Lock()
        self._replacements_left = replacements
        self._given_up: set[threading.Thread] = set()
        self._threads: set[threading.Thread] = set()
        for _ in range(threads):
            self._start()

    def submit(self, task: Callable[[], None]) -> None:
        """Queue `task`, which must not raise."""
        self._tasks.put(task)

    def give_up(self, thread: threading.Thread) -> bool:
        """Replace `thread`, whose task hangs; False if it was given up before, or if too many hang already."""
        with self._lock:
            if thread in self._given_up or thread not in self._threads or self._replacements_left == 0:
                return False
            self._replacements_left -= 1
            self._given_up.add(thread)
        self._start()
        return True

    @property
    def hanging(self) -> int:
        """Threads that were given up and have not come back."""
        with self._lock:
            return len(self._given_up)

    def shutdown(self, patience_seconds: float = 5.0) -> None:
        """End all threads that are not hanging; queued tasks run first. Waits `patience_seconds` in all."""
        end = time.monotonic() + patience_seconds
        with self._lock:
            waited = [t for t in self._threads if t not in self._given_up]
            for _ in self._threads:
                self._tasks.put(None)
        for thread in waited:
            thread.join(max(0.0, end - time.monotonic()))

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    def _run(self) -> None:
        me = threading.current_thread()
        while (task := self._tasks.get()) is not None:
            task()
            with self._lock:
                if me in self._given_up:
                    # Its replacement has been at work meanwhile.
                    self._given_up.discard(me)
                    self._replacements_left += 1
                    break
        with self._lock:
            self._threads.discard(me)
