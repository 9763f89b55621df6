"""Opens what a user names: a file, or a pipe that somebody writes to."""

import io
import os
import re
import stat
from contextlib import suppress
from threading import Thread

from warmset.errors import InputError

# A command that writes to the pipe is started beside ours, at about the same moment.
WRITER_SECONDS = 10.0
_OWN = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/(\d{1,9})")


def open_input(path: str | os.PathLike[str]) -> io.BufferedReader:
    """The bytes of a file, as `open(path, "rb")`; a named pipe must have a writer within `WRITER_SECONDS`.

    A writer may take its time, as behind the shell's `<(command)`. Raises InputError where nobody writes, and OSError
    as `open` does.
    """
    return open(path, "rb", opener=_opener)


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """Whether what is read from `path` is gone afterwards."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _opener(path: str, flags: int) -> int:
    if not is_pipe(path):
        return os.open(path, flags)
    own = _OWN.fullmatch(path)
    if own is not None:
        # What is open already has its writer, or had one that left something to read.
        return os.dup(int(own[1] or 0))
    opened: list[int | OSError] = []

    def wait() -> None:
        try:
            opened.append(os.open(path, flags))  # returns as soon as there is a writer
        except OSError as error:
            opened.append(error)

    thread = Thread(target=wait, daemon=True)
    thread.start()
    thread.join(WRITER_SECONDS)
    if not opened:
        _let_go(path, thread, opened)
        raise InputError(
            f"`{path}` is a pipe, and nobody writes to it",
            hint=f"start what writes to it within {WRITER_SECONDS:g} s, or give a file; `<(command)` works too",
        )
    found = opened[0]
    if isinstance(found, OSError):
        raise found
    return found


def _let_go(path: str, thread: Thread, opened: list[int | OSError]) -> None:
    """End the thread that still waits for a writer, by being one; if the pipe is another by now, it waits on."""
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    thread.join(1.0)
    if opened and not isinstance(opened[0], OSError):
        os.close(opened[0])
