"""Runs every `bench_*.py` beside this file that is asked for (all by default) and prints one table.

A benchmark module has `main()`, which yields `(name, value, unit)`.
"""

import importlib
import platform
import sys
from importlib.metadata import version
from pathlib import Path


def machine() -> str:
    """Processor and versions: a number without them says nothing."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.partition(":")[2].strip()
            for line in cpuinfo.read_text().splitlines()
            if "model name" in line
        ]
        model = f"{len(names)} × {names[0]}" if names else model
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "pyarrow"))
    return (
        f"{model}; {platform.system()} {platform.release()}; Python {platform.python_version()}; {packages}"
    )


def main() -> None:
    """Run the benchmarks named on the command line, or all."""
    wanted = sys.argv[1:] or sorted(
        p.stem.removeprefix("bench_") for p in Path(__file__).parent.glob("bench_*.py")
    )
    print(machine())
    for name in wanted:
        module = importlib.import_module(f"benchmarks.bench_{name}")
        for label, value, unit in module.main():
            print(f"{label:<64} {value:>14,.2f}  {unit}", flush=True)


if __name__ == "__main__":
    main()
