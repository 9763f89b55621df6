"""What would make a lab fail, found before anything is started."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from warmset.errors import InputError
from warmset.lab.workload import Workload, each
from warmset.units import format_bytes, format_counted

SHM = Path("/dev/shm")  # noqa: S108  # vLLM's host tier lives there
MEMINFO = Path("/proc/meminfo")
_INSTALL = "install the CPU build beside warmset: `pip install 'warmset[lab]'`"
# vLLM's own queues between its processes.
_ROOM_BYTES = 64 << 20


def check_python(python: str) -> None:
    """Raise InputError when vLLM and warmset cannot both be imported by `python`."""
    if python == sys.executable:
        if importlib.util.find_spec("vllm") is None:
            raise InputError("vLLM is not installed in this environment", hint=_INSTALL)
        return
    probe = "import importlib.util as u; print(*[n for n in ('vllm', 'warmset') if u.find_spec(n) is None])"
    try:
        found = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(
            f"`{python}` is not a Python that runs: {error}", hint="give the path of an interpreter"
        ) from None
    if missing := found.stdout.split():
        raise InputError(f"{' and '.join(missing)} not installed for `{python}`", hint=_INSTALL)


def check_model(directory: Path) -> None:
    """Raise InputError when there is no model in `directory`."""
    if not directory.is_dir():
        raise InputError(
            f"there is no model directory `{directory}`",
            hint="leave `--model` out: the lab writes a small model of its own",
        )
    if not (directory / "config.json").is_file():
        raise InputError(f"`{directory}` has no config.json", hint="give the directory of a model")


def check_shared_memory(tier_bytes: int) -> None:
    """Raise InputError when the host tier has no room in shared memory."""
    if not SHM.is_dir() or not os.access(SHM, os.W_OK):
        raise InputError(
            f"there is no shared memory: `{SHM}` cannot be written",
            hint="mount a tmpfs there (in a container: `--shm-size 2g` or `--ipc=host`)",
        )
    stat = os.statvfs(SHM)
    free = stat.f_bavail * stat.f_frsize
    if free < tier_bytes + _ROOM_BYTES:
        raise InputError(
            f"the host tier needs {format_bytes(tier_bytes)} of shared memory and the server "
            f"{format_bytes(_ROOM_BYTES)}, but `{SHM}` has {format_bytes(free)} free",
            hint="give fewer `--tier-blocks`, or more shared memory (in a container: `--shm-size`)",
        )


def check_memory(pool_bytes: int) -> None:
    """Raise InputError when the device pool, which is this machine's memory, does not fit it."""
    try:
        text = MEMINFO.read_text(encoding="ascii")
        available = next(int(row.split()[1]) for row in text.splitlines() if row.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return
    if pool_bytes > available * 1024:
        raise InputError(
            f"the device pool needs {format_bytes(pool_bytes)} of memory, but this machine has "
            f"{format_bytes(available * 1024)} available",
            hint="give fewer `--device-blocks`",
        )


def check_context(longest_tokens: int, most_tokens: int) -> None:
    """Raise InputError when a request is longer than the model's context."""
    if longest_tokens > most_tokens:
        raise InputError(
            f"a request has `{longest_tokens - 1:,}` tokens, but the model takes {most_tokens:,}",
            hint="leave `--model` out, or give a workload with shorter requests",
        )


def check_pool(workload: Workload, device_blocks: int, block_tokens: int) -> None:
    """Raise InputError when a request does not fit the device pool by itself."""
    usable = device_blocks - 1
    tokens, number = max(
        (request.input_tokens + request.output_tokens, number)
        for number, request in enumerate(each(workload))
    )
    needed = -(-tokens // block_tokens)
    if needed > usable:
        raise InputError(
            f"request {number} has {tokens:,} tokens and needs {format_counted(needed, 'block')}, but a device pool of "
            f"`{device_blocks}` blocks has {max(usable, 0)} to use (the server keeps one)",
            hint=f"give `--device-blocks {needed + 1}` or more, or a workload with shorter requests",
        )
