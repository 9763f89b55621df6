"""Standard streams as a command needs them, whatever the shell, a pipe or a service manager gave."""

import io
import os
import sys

from warmset.errors import InputError


def prepare_streams() -> None:
    """Open the closed ones on the null device, and let no character stop the output.

    Raises InputError where standard output is closed: an answer would be lost without a word.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        # Otherwise the next file that is opened becomes this stream.
        setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if "stdout" in closed:
        raise InputError(
            "standard output is closed",
            hint="send it to a file, or to /dev/null where only the exit code counts",
        )


def give_up_output() -> None:
    """Write what is still buffered to nowhere: the reader went away, or the disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
