"""A real `lmcache server` beside vLLM, for the backend `lmcache`."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from warmset.errors import InputError
from warmset.lab.server import command, free_port, wait_until_ready
from warmset.meters.verdict import Evidence, Step, Verdict

# What of LMCache the lab's server and vLLM's connector need; its command line alone comes up without them.
_PROBE = """
import importlib, sys
import warmset.vllm.startup
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        break
"""
_PARTS = {
    "lmcache": ("lmcache.v1.multiprocess.http_server", "lmcache.integration.vllm.lmcache_mp_connector"),
    "lmcache-inprocess": ("lmcache.integration.vllm.vllm_v1_adapter",),
}


def check_lmcache(backend: str, python: str) -> None:
    """Raise InputError when `python` cannot import the parts of LMCache that the backend runs on."""
    parts = _PARTS.get(backend)
    if parts is None:
        return
    found = subprocess.run(
        [python, "-c", _PROBE, *parts], capture_output=True, text=True, timeout=120, check=False
    )
    said = found.stdout.strip().splitlines()
    if found.returncode == 0 and not (said and "Error" in said[-1]):
        return
    reason = said[-1] if said else (found.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
    raise InputError(
        f"LMCache cannot be used by `{python}`: {reason}",
        hint=f"`{python} -m pip install 'lmcache>=0.5.6'` (docs/how-to/lab.md says how beside the CPU "
        "build of vLLM), or use `--backend native`",
    )


@contextmanager
def lmcache_server(
    backend: str, python: str, l1_bytes: int, chunk_tokens: int, directory: Path
) -> Iterator[int | None]:
    """The port of a server with `l1_bytes` of memory while the context lasts; None for other backends.

    Its own metrics at the end are kept beside its log.
    """
    if backend != "lmcache":
        yield None
        return
    port, http_port = free_port(), free_port()
    words = [
        python,
        "-c",
        "import sys; from lmcache.cli.main import main; sys.exit(main())",
        "server",
        "--host",
        "localhost",
        "--port",
        str(port),
        "--http-port",
        str(http_port),
        # LMCache counts in GiB and keeps chunks of 256 tokens unless told otherwise.
        "--l1-size-gb",
        f"{l1_bytes / 2**30:.9f}",
        "--chunk-size",
        str(chunk_tokens),
        "--eviction-policy",
        "LRU",
        # The default mode waits for a GPU and hangs at the start without one.
        "--supported-transfer-mode",
        "engine_driven",
    ]
    log = directory / "lmcache.log"
    environment = dict(os.environ) | {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}
    metrics = f"http://127.0.0.1:{http_port}/metrics"
    with command(words, log, environment=environment) as process:
        wait_until_ready(metrics, process, log, 120.0)
        yield port
        try:
            page = httpx.get(metrics, timeout=30.0, trust_env=False).text
        except httpx.HTTPError as error:
            raise InputError(
                f"the `lmcache server` went away during the replay: {error}", hint=f"see its log, `{log}`"
            ) from None
        (directory / "lmcache.end.prom").write_text(page, encoding="utf-8")


def inert(backend: str, asked_tokens: int, directory: Path) -> Verdict | None:
    """The verdict on an LMCache connector that came up healthy and then answered nothing.

    `asked_tokens` is what a least-recently-used tier of this size would have answered; None is returned
    where that is nothing either, and for other backends.
    """
    if not backend.startswith("lmcache") or not asked_tokens:
        return None
    if backend == "lmcache":
        what, see = "its `lmcache server` ", directory / "lmcache.log"
        did = "stored nothing" if _stored_nothing(directory) else "stored and answered nothing"
        fix = Step("Read the log of LMCache's server.", f"grep -iE 'error|warn' {see}")
    else:
        what, did = "its in-process connector ", "answered nothing: without CUDA it moves no blocks"
        fix = Step("Run LMCache as a server of its own.", "warmset lab --backend lmcache")
    summary = (
        f"LMCache is attached and healthy, but inert: {what}{did} "
        f"(a tier of this size would have answered {asked_tokens:,} tokens)"
    )
    evidence = Evidence("tokens that a tier of this size would have answered", asked_tokens, "tokens")
    return Verdict("inert", "connector_inert", summary, "high", (evidence,), (fix,))


def _stored_nothing(directory: Path) -> bool:
    rows = (directory / "lmcache.end.prom").read_text(encoding="utf-8").splitlines()
    # A counter is absent until it first counts.
    return not any(
        float(row.rsplit(" ", 1)[1]) for row in rows if row.startswith("lmcache_mp_l1_write_chunks_total")
    )
