"""A bar on standard error for what takes more than a second; lines where no terminal shows a bar."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from warmset.cli.options import talk

_BAR_AFTER_SECONDS = 1.0
_LINE_EVERY_SECONDS = 10.0


@contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Yields what to call with (done, total), in any unit; nothing is shown within the first second.

    On a terminal the bar appears by itself, moving without a number until the first call.
    """
    began = said = time.monotonic()
    bar: Any = None
    lock = threading.Lock()

    def appear() -> None:
        nonlocal bar
        with lock:
            if bar is None and not timer.finished.is_set():
                bar = _bar(what)

    def show(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if quiet or total <= 0 or now - began < _BAR_AFTER_SECONDS:
            return
        if sys.stderr.isatty():
            appear()
            if bar is not None:
                bar.update(0, completed=min(done, total), total=total)
        elif now - said >= _LINE_EVERY_SECONDS:
            said = now
            talk(f"{what}: {done / total:.0%} …", quiet=quiet)

    timer = threading.Timer(_BAR_AFTER_SECONDS, appear)
    timer.daemon = True
    if not quiet and sys.stderr.isatty():
        timer.start()
    try:
        yield show
    finally:
        with lock:
            timer.cancel()
            if bar is not None:
                bar.stop()


def _bar(what: str) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
    )
    bar.add_task(what, total=None)
    bar.start()
    return bar
