"""A real `lmcache server` beside vLLM, for the backend `lmcache`."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warmset.errors import InputError
from warmset.lab.server import command, free_port, wait_until_ready


@contextmanager
def lmcache_server(backend: str, python: str, l1_bytes: int, directory: Path) -> Iterator[int | None]:
    """The port of a server with `l1_bytes` of memory while the context lasts; None for other backends."""
    if backend != "lmcache":
        yield None
        return
    program = Path(python).parent / "lmcache"
    found = str(program) if program.exists() else shutil.which("lmcache")
    if found is None:
        raise InputError(
            "LMCache is not installed in vLLM's environment",
            hint="`pip install 'lmcache>=0.5.6'`, or use `--backend native`",
        )
    port, http_port = free_port(), free_port()
    words = [
        found,
        "server",
        "--host",
        "localhost",
        "--port",
        str(port),
        "--http-port",
        str(http_port),
        # LMCache counts in GiB and keeps chunks of 256 tokens unless told otherwise.
        "--l1-size-gb",
        f"{l1_bytes / 2**30:.6f}",
        "--chunk-size",
        "32",
        "--eviction-policy",
        "LRU",
        # The default mode waits for a GPU and hangs at the start without one.
        "--supported-transfer-mode",
        "engine_driven",
    ]
    log = directory / "lmcache.log"
    with command(words, log, environment=os.environ) as process:
        wait_until_ready(f"http://127.0.0.1:{http_port}/metrics", process, log, 120.0)
        yield port
