"""Starts a real server for the lab and ends it, whatever happens."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import httpx

from warmset.errors import InputError
from warmset.lab import guard
from warmset.units import format_counted

START_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class VllmServer:
    """A `vllm serve` to be started.

    Attributes:
        python: the interpreter in which vLLM and warmset are installed.
        model: directory of the model.
        kv_cache_bytes: memory of the device pool.
        transfer: the value of `--kv-transfer-config`; None leaves offload off.
        port: 0 lets the system choose.
    """

    python: str
    model: Path
    device_blocks: int
    block_tokens: int
    kv_cache_bytes: int
    max_context_tokens: int
    concurrency: int
    transfer: Mapping[str, Any] | None = None
    port: int = 0
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, port: int) -> list[str]:
        """The command that starts it."""
        options = {
            "--host": "127.0.0.1",
            "--port": port,
            "--served-model-name": "lab",
            "--dtype": "float32",
            "--block-size": self.block_tokens,
            "--num-gpu-blocks-override": self.device_blocks,
            "--kv-cache-memory-bytes": self.kv_cache_bytes,
            "--max-model-len": self.max_context_tokens,
            # A prompt is computed in one step, so that what it stores is offered to the tier at once.
            "--max-num-batched-tokens": max(self.max_context_tokens, 2048),
            "--max-num-seqs": max(self.concurrency, 1),
        }
        flags = ["--enforce-eager", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log"]
        if self.transfer is not None:
            options["--kv-transfer-config"] = json.dumps(self.transfer)
        words = [str(word) for option in options.items() for word in option]
        return [self.python, "-m", "warmset.vllm.serve", str(self.model), *words, *flags, *self.arguments]


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    url: str
    model: str
    log: Path
    alive: Callable[[], bool]


@contextmanager
def running(server: VllmServer, log: Path, *, timeout_seconds: float = START_SECONDS) -> Iterator[Running]:
    """Start a server, wait until it answers, and end it on leaving.

    Raises InputError with the server's own reason when it does not come up.
    """
    port = server.port or free_port()
    if server.port and not _is_free(server.port):
        raise InputError(
            f"port `{server.port}` is taken", hint="give another `--port`, or none: the lab finds a free one"
        )
    with command(server.command(port), log, environment=_environment(server.environment)) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(f"{url}/health", process, log, timeout_seconds)
        _check_own(url, server, log)
        yield Running(url, "lab", log, lambda: process.poll() is None)


@contextmanager
def command(
    words: Sequence[str], log: Path, *, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command under the guard, its output in `log`; nothing of it is left on leaving."""
    with log.open("wb") as out:
        # The guard is run by path: it must start at once and needs nothing of the environment.
        process = subprocess.Popen(
            [sys.executable, "-I", guard.__file__, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop(process)


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path, timeout_seconds: float) -> None:
    """Return when `url` answers 200; InputError when the process ends or the time is up."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise InputError(
                f"the server did not start: {failure_in(log)}", hint=f"the whole log is in `{log}`"
            )
        with suppress(httpx.HTTPError):
            if httpx.get(url, timeout=5.0, trust_env=False).status_code == 200:
                return
        time.sleep(0.2)
    raise InputError(
        f"the server did not answer within {format_counted(timeout_seconds, 'second')}",
        hint=f"see its log, `{log}`",
    )


def free_port() -> int:
    """A port that nobody listens on now, below those that the system deals out: a server takes some seconds to bind
    its port, and until then another program must not get it by chance."""
    low = 32_768
    with suppress(OSError):
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    quiet = range(max(10_000, low - 10_000), low)
    for port in random.sample(quiet, min(len(quiet), 100)):
        if _is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _check_own(url: str, server: VllmServer, log: Path) -> None:
    """InputError if it is another server that answers: one that took the port while ours was starting."""
    with suppress(httpx.HTTPError, ValueError, LookupError, TypeError):
        answer = httpx.get(f"{url}/v1/models", timeout=30.0, trust_env=False)
        # With a key, from its arguments or the environment, the server tells only who has it.
        if answer.status_code == 401 or answer.json()["data"][0]["root"] == str(server.model):
            return
    raise InputError(
        f"another program answers at `{url}`: it took the port while the server was starting",
        hint=f"run it again; the server's log is `{log}`",
    )


def failure_in(log: Path) -> str:
    """The line of a server's log that says why it failed."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    # The first error is the cause; those after it are the processes that waited for it.
    causes = re.findall(
        r"^(?:\([^)]*\) ?)?(?:ERROR [^\]]*\] )?((?:[\w.]*Error|[\w.]*Exception|error|\w+\.Unsupported):? .+)$",
        text,
        re.MULTILINE,
    )
    if causes:
        return str(causes[0])[:500]
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "it wrote nothing"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    environment = dict(os.environ)
    # Metrics of earlier servers would be mixed into this one's.
    environment.pop("PROMETHEUS_MULTIPROC_DIR", None)
    # Threads that spin at barriers stall each other where processes share cores; what is set already holds.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}
    return (
        waiting
        | environment
        | {
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
            # Bound threads of several labs would share the same cores.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }
        | dict(extra)
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the guard, which ends everything below it; Ctrl-C does not cut this short, it comes after it."""
    interrupted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True

    previous = None
    with suppress(ValueError):  # only the main thread may set handlers
        previous = signal.signal(signal.SIGINT, note)
    try:
        process.terminate()
        try:
            process.wait(guard.GRACE_SECONDS + 15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    finally:
        if previous is not None:
            signal.signal(signal.SIGINT, previous)
    if interrupted:
        raise KeyboardInterrupt
