"""Where snapshots come from: saved files, a running server, or a fleet in one sweep."""

import asyncio
import os.path
import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from warmset.addresses import is_http, without_credentials
from warmset.errors import InputError
from warmset.meters.http import MAX_CONNECTIONS, Access, client, fetch
from warmset.meters.pages import read_page
from warmset.meters.snapshot import Snapshot, merge, scrape
from warmset.opening import open_input

if TYPE_CHECKING:
    import httpx

_MAX_TARGETS = 4 * 2**20
# Characters of fetched pages that wait to be read.
_MOST_HELD = 2**28
_HOST_PORT = re.compile(r"[A-Za-z0-9_.\-\[\]:]+:\d{1,5}(/.*)?")


def is_address(text: str) -> bool:
    """Whether a source is an address (and not a file): a URL, `dns:NAME:PORT`, or `host:port`; or a list of such with
    commas.
    """
    if text.startswith(("http://", "https://", "dns:")):
        return True
    return not os.path.exists(text) and all(_HOST_PORT.fullmatch(part.strip()) for part in text.split(","))


def read_file(path: str) -> Snapshot:
    """A saved page of metrics, plain or gzip. Raises InputError where it is missing, too large or no such page."""
    snapshot = scrape(read_page(path), source=path)
    if not snapshot.samples:
        raise InputError(
            f"`{path}` holds no metrics of vLLM, SGLang or LMCache",
            hint="scrape the engine's own `/metrics`, not that of a proxy or an exporter",
        )
    return snapshot


def addresses(texts: Sequence[str], targets_file: Path | None = None) -> tuple[str, ...]:
    """Every address, with `/metrics` where no path is given, names after `dns:` resolved to all their addresses.

    A file has one address per line; empty lines and `#` comments are skipped.
    """
    listed = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if targets_file is not None:
        try:
            with open_input(targets_file) as stream:
                text = stream.read(_MAX_TARGETS + 1).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"`{targets_file}` cannot be read: {error}", hint="write one address per line"
            ) from None
        if len(text) > _MAX_TARGETS:
            raise InputError(f"`{targets_file}` is too large", hint="write one address per line")
        lines = text.splitlines()
        listed += [text for line in lines if (text := line.split("#", 1)[0].strip())]
        if not listed:
            raise InputError(f"`{targets_file}` names no server", hint="write one address per line")
    found: dict[str, None] = {}
    for text in listed:
        for url in _resolve(text) if text.startswith("dns:") else (_normal(text),):
            found[url] = None
    return tuple(found)


async def sweep(urls: Sequence[str], how: Access, session: "httpx.AsyncClient | None" = None) -> Snapshot:
    """One snapshot of all servers, fetched at once; those that fail are listed, and only if all fail it is an error."""
    if session is None:
        async with client(how) as opened:
            return await sweep(urls, how, opened)
    gate = asyncio.Semaphore(_connections())
    answers: dict[str, Snapshot | InputError] = {}
    fetched: list[tuple[str, str, float]] = []

    def read_fetched() -> None:
        while fetched:
            shown, text, taken = fetched.pop()
            answers[shown] = _page(shown, text, taken)

    async def one(url: str) -> None:
        shown = without_credentials(url)
        async with gate:
            try:
                text = await fetch(session, url, how)
            except InputError as error:
                answers[shown] = error
                return
        # Reading a page is pure computation, and would hold up the other answers while their clocks run: it waits until
        # all are in, unless they grow too large to be kept.
        fetched.append((shown, text, time.time()))
        if sum(len(text) for _, text, _ in fetched) > _MOST_HELD:
            read_fetched()

    await asyncio.gather(*(one(url) for url in urls))
    read_fetched()
    pages = [(url, answers[url]) for url in dict.fromkeys(map(without_credentials, urls))]
    good = [(_instance(url), s) for url, s in pages if isinstance(s, Snapshot)]
    bad = [(_instance(url), e) for url, e in pages if isinstance(e, InputError)]
    if not good:
        first = bad[0][1]
        more = f" (and {len(bad) - 1} more servers failed)" if len(bad) > 1 else ""
        raise InputError(first.message + more, hint=first.hint)
    return merge(good, ((instance, error.message) for instance, error in bad))


def _page(shown: str, text: str, taken: float) -> Snapshot | InputError:
    try:
        snapshot = scrape(text, source=shown, time_seconds=taken)
    except InputError as error:
        return error
    if not snapshot.samples:
        return InputError(
            f"`{shown}` serves no metrics of vLLM, SGLang or LMCache",
            hint="check the port; SGLang needs `--enable-metrics`",
        )
    return snapshot


def _connections() -> int:
    """How many servers are asked at once: files that the process may open bound it."""
    try:
        import resource
    except ImportError:  # not on every platform
        return MAX_CONNECTIONS
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(1, min(MAX_CONNECTIONS, allowed - 64)) if allowed > 0 else MAX_CONNECTIONS


def _instance(url: str) -> str:
    """What tells servers apart: scheme, host and port."""
    parts = urlsplit(url)
    path = "" if parts.path in ("", "/metrics") else parts.path
    return f"{parts.scheme}://{parts.netloc}{path}"


def _normal(text: str) -> str:
    url = text if "://" in text else f"http://{text}"
    if not is_http(url):
        raise InputError(
            f"address `{without_credentials(text)[:80]}` cannot be read",
            hint="write it like `http://host:8000`",
        )
    parts = urlsplit(url)
    path = parts.path
    if path.rstrip("/") == "" or path.rstrip("/").endswith(
        "/v1"
    ):  # the base of the API that clients are given
        path = path.rstrip("/").removesuffix("/v1") + "/metrics"
    return parts._replace(path=path, fragment="").geturl()


def _resolve(text: str) -> tuple[str, ...]:
    """All addresses behind a name: `dns:vllm-headless.prod.svc:8000`."""
    shown = without_credentials(text)[:80]
    host, separator, port = text.removeprefix("dns:").removeprefix("//").rpartition(":")
    if not separator or not port.isdigit() or not host:
        raise InputError(f"`{shown}` has no port", hint="write it like `dns:vllm-headless.prod.svc:8000`")
    try:
        answers = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError):
        raise InputError(
            f"`{shown}`: the host name is not known", hint="check the name of the headless service"
        ) from None
    ips = sorted({str(answer[4][0]) for answer in answers})
    return tuple(f"http://{f'[{ip}]' if ':' in ip else ip}:{port}/metrics" for ip in ips)
