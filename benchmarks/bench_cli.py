"""CPU time of the command line, from start to exit, as `time` counts it: user and system, all threads."""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

RUNS = 9

_PLAN = ("plan", "llama-3.1-8b", "--gpu", "h100-80gb", "--sessions", "200", "--context", "8192")
_COMMANDS: dict[str, tuple[str, ...]] = {
    "warmset --help": ("--help",),
    "warmset footprint llama-3.1-8b": ("footprint", "llama-3.1-8b"),
    "warmset plan llama-3.1-8b": _PLAN,
    "warmset plan deepseek-v4-pro, tp 8, JSON": (
        *("plan", "deepseek-v4-pro", "--hbm-kv", "100", "--tp", "8", "--sessions", "200"),
        *("--context", "32768", "-o", "json"),
    ),
    "warmset launch llama-3.1-8b": ("launch", "llama-3.1-8b", "--tier", "230GiB"),
}


def cpu_seconds(arguments: tuple[str, ...]) -> float:
    """CPU seconds of one run in a process of its own; CalledProcessError where it fails."""
    before = os.times()
    subprocess.run(  # our own command
        (sys.executable, "-m", "warmset", *arguments), check=True, stdout=subprocess.DEVNULL
    )
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def main() -> Iterator[tuple[str, float, str]]:
    """Median of several runs; the first, which may compile bytecode, is not counted."""
    for name, arguments in _COMMANDS.items():
        cpu_seconds(arguments)
        yield name, 1000 * statistics.median(cpu_seconds(arguments) for _ in range(RUNS)), "ms CPU"
