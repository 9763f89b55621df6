"""Labs and servers for the end-to-end tests; nothing here runs without vLLM."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from e2e.processes import left_in_shared_memory, named


@pytest.fixture(scope="session")
def vllm():
    """Skips where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed in this environment")


@dataclass(frozen=True)
class Done:
    """A `warmset lab` that ended."""

    code: int
    result: dict
    error: str
    left: tuple[str, ...]


class Traces:
    """What runs or lies in shared memory, compared with the moment at which this was made."""

    def __init__(self):
        self._before = set(os.listdir("/dev/shm"))

    def left(self, mark):
        """Processes whose command line has `mark`, and new names in shared memory that no process maps.

        What lies there only for a moment (a server that somebody else starts or ends) is looked at again.
        """
        for _ in range(5):
            if not (found := self._left_now(mark)):
                break
            time.sleep(1)
        return found

    def _left_now(self, mark):
        return (*named(mark).values(), *left_in_shared_memory(self._before))


@pytest.fixture
def traces_of():
    """Makes a `Traces`."""
    return Traces


@pytest.fixture(scope="session")
def lab(vllm, tmp_path_factory):
    """Runs `warmset lab ARGUMENTS -o json` and notes what it left behind."""

    def run(*arguments, timeout=400):
        directory = tmp_path_factory.mktemp("lab") / "run"
        traces = Traces()
        words = [sys.executable, "-m", "warmset", "lab", *map(str, arguments)]
        words += ["--run-dir", str(directory), "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
        result = json.loads(done.stdout) if done.returncode == 0 else {}
        return Done(done.returncode, result, done.stderr, traces.left(str(directory)))

    return run
