"""Remembers that Ctrl-C was pressed, whatever became of its KeyboardInterrupt."""

import os
import signal
from contextlib import suppress

_reader: int | None = None
_heard = False


def listen() -> None:
    """From here on `heard` knows. Python's own handler of Ctrl-C stays in place: libraries look for it."""
    global _reader
    if _reader is not None or os.name != "posix":
        return
    reader, writer = os.pipe()
    if min(reader, writer) <= 2:
        # A standard stream is closed: what is written to it must not come here.
        os.close(reader)
        os.close(writer)
        return
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    # The number of every signal is written here before any code in Python can lose it.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _reader = reader


def heard() -> bool:
    """Whether Ctrl-C was pressed since `listen`."""
    global _heard
    if _reader is not None and not _heard:
        with suppress(BlockingIOError):
            _heard = signal.SIGINT in os.read(_reader, 65_536)
    return _heard
