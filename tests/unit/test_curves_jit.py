"""Kernels compile where nothing can be written, and give the same numbers."""

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from warmset.curves._jit import jit


def test_without_a_place_to_keep_it_a_kernel_is_still_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    real = numba.njit

    def njit(*args, cache=False, **options):  # type: ignore[no-untyped-def]
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", njit)

    @jit
    def double(x: int) -> int:
        return 2 * x

    assert double(21) == 42


def test_importing_the_command_line_does_not_import_numba() -> None:
    code = "import sys, warmset.cli.main, warmset.cli.curve; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False).returncode == 0


def test_kernels_are_kept_between_runs(tmp_path: Path) -> None:
    code = (
        "import numpy as np; from warmset.curves._jit import jit\n"
        "from warmset.curves.policies.optimal import next_uses\n"
        "next_uses(np.zeros(1, np.int64), np.array([0, 1]), 1)\n"
        "print(sum(next_uses.stats.cache_hits.values()))"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = [sys.executable, "-c", code]
    first, second = (subprocess.run(run, env=env, capture_output=True, text=True, check=True) for _ in "ab")
    assert (first.stdout.strip(), second.stdout.strip()) == ("0", "1")
