"""Runs a command so that nothing of it outlives this process: `python guard.py COMMAND …`.

It is a program of its own, started by the lab for each server, and needs nothing but the standard library.
It ends its command when it is told to (SIGTERM), when the lab dies, however the lab dies, and when the
command itself ends and leaves children behind. After that it removes the files in shared memory that the
command's processes had mapped and nobody else can know of, and the sockets and scratch files that vLLM
leaves in the directory for temporary files, of which the command gets one of its own.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from types import FrameType

GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.2
_SHM = "/dev/shm/"  # noqa: S108  # the place is the point
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


class _Stop(Exception):
    """Somebody wants the command to end."""


def main(command: list[str]) -> int:
    """Run `command` and return its exit code."""
    lab = os.getppid()
    # Ctrl-C goes to the lab, which decides; the command is in a session of its own and does not see it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    _prctl(_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_SET_CHILD_SUBREAPER, 1)
    mapped: set[int] = set()
    child: subprocess.Popen[bytes] | None = None
    scratch: str | None = None
    code = 128 + signal.SIGTERM
    try:
        if os.getppid() != lab:
            raise _Stop
        scratch = tempfile.mkdtemp(prefix="warmset-")
        child = subprocess.Popen(
            command, start_new_session=True, preexec_fn=_die_with_guard, env=_environment(scratch)
        )
        code = _watch(child, mapped)
    except _Stop:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if child is not None:
            _end(child, mapped)
        _remove(mapped)
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
    return code


def _environment(scratch: str) -> dict[str, str]:
    # A socket's path has 107 bytes at most, and names of 36 go below this one.
    return dict(os.environ) | ({"TMPDIR": scratch} if len(scratch) < 70 else {})


def _watch(child: subprocess.Popen[bytes], mapped: set[int]) -> int:
    due = 0.0
    while child.poll() is None:
        now = time.monotonic()
        if now >= due:
            # A command that is killed cannot be asked any more; what it maps is noted while it lives.
            mapped |= _mapped_shm(_descendants(os.getpid()))
            due = now + 1.0
        time.sleep(_POLL_SECONDS)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _end(child: subprocess.Popen[bytes], mapped: set[int]) -> None:
    """Ask, wait, then kill, until no descendant is left; note what they map until the last moment."""
    mapped |= _mapped_shm(_descendants(os.getpid()))
    if child.poll() is None:
        with contextlib.suppress(OSError):
            child.terminate()
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and (child.poll() is None or _descendants(os.getpid())):
        mapped |= _mapped_shm(_descendants(os.getpid()))
        _reap(child)
        if child.poll() is not None:
            # The command is gone: what it left behind has had its own time to end.
            deadline = min(deadline, time.monotonic() + 2.0)
            if not _descendants(os.getpid()):
                break
        time.sleep(0.05)
    for _ in range(100):
        left = _descendants(os.getpid())
        if not left:
            return
        mapped |= _mapped_shm(left)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reap(child)
        time.sleep(0.05)


def _reap(child: subprocess.Popen[bytes]) -> None:
    """Collect orphans, which come to this process because it is their subreaper."""
    child.poll()
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                    # The command's name, in parentheses, may itself hold spaces and parentheses.
                    state, parent = stat.read().rpartition(")")[2].split()[:2]
                if state != "Z":
                    children.setdefault(int(parent), []).append(int(name))
    found: set[int] = set()
    todo = [root]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found


def _mapped_shm(pids: set[int]) -> set[int]:
    """Inodes of what these processes map in shared memory.

    Not names: a semaphore is mapped under a name that it has lost by the time it gets its own.
    """
    inodes: set[int] = set()
    for pid in pids:
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps,
        ):
            for line in maps:
                if _SHM in line:
                    inodes.add(int(line.split(maxsplit=5)[4]))
    return inodes


def _remove(inodes: set[int]) -> None:
    with contextlib.suppress(OSError), os.scandir(_SHM) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.inode() in inodes:
                    os.unlink(entry.path)


def _stop(number: int, frame: FrameType | None) -> None:
    # Once is enough: a second signal must not interrupt the cleaning up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise _Stop


def _die_with_guard() -> None:
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
