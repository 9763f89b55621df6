"""What runs on this machine and what it holds: processes by their command line, names in shared memory."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def named(mark: str) -> dict[int, str]:
    """The processes other than this one whose command line has `mark`, and that line."""
    return {pid: line for pid, _, line in _running() if mark in line and pid != os.getpid()}


def processes_of(mark: str) -> list[int]:
    """The processes whose command line has `mark`, and everything below them."""
    children: dict[int, list[int]] = {}
    found: list[int] = []
    for pid, parent, line in _running():
        children.setdefault(parent, []).append(pid)
        if mark in line and pid != os.getpid():
            found.append(pid)
    for pid in found:
        found.extend(child for child in children.get(pid, ()) if child not in found)
    return found


def held_by(pids: list[int]) -> dict[str, float]:
    """Threads, open files, memory (MiB, shared memory counted once) and processes of `pids`.

    Memory of vLLM's workers stands apart, where there are any.
    """
    total = {"processes": 0.0, "threads": 0.0, "files": 0.0, "memory_mib": 0.0, "workers_mib": 0.0}
    for pid in pids:
        with suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            kind = "workers_mib" if "Worker" in Path(f"/proc/{pid}/comm").read_text() else "memory_mib"
            total[kind] += next(
                int(line.split()[1]) / 1024 for line in rollup.splitlines() if line.startswith("Pss:")
            )
            total["files"] += len(os.listdir(f"/proc/{pid}/fd"))
            total["threads"] += len(os.listdir(f"/proc/{pid}/task"))
            total["processes"] += 1
    return total


def left_in_shared_memory(before: set[str]) -> list[str]:
    """New names there that no process maps: what a live one maps belongs to somebody else's server."""
    # The names first: what is made while the processes are looked through is not yet left behind.
    new = set(os.listdir("/dev/shm")) - before
    mapped = ""
    for entry in _entries():
        with suppress(OSError):
            rows = (entry / "maps").read_text().splitlines()
            mapped += "".join(f"{row}\n" for row in rows if "/dev/shm/" in row)
    return sorted(name for name in new if f"/dev/shm/{name}" not in mapped)


def _running() -> Iterator[tuple[int, int, str]]:
    """Each process, its parent and its command line."""
    for entry in _entries():
        with suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1]), line


def _entries() -> Iterator[Path]:
    return (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
