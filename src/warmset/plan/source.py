"""Fetches a server's own words: a file, standard input, or its metrics page over HTTP; bounded in size and time."""

import os.path
import sys

from warmset.addresses import without_credentials
from warmset.errors import InputError
from warmset.opening import open_input
from warmset.units import MIB

MAX_SOURCE_BYTES = 64 * MIB
STDIN = "-"


def metrics_text(source: str) -> str:
    """A server's page of metrics: its address as `measure` takes it, a saved page (plain or gzip), or `-`.

    Raises InputError for what cannot be read, for more than 64 MiB, for what is not text, and for several servers.
    """
    from warmset.meters.pages import page_text, read_page
    from warmset.meters.sources import addresses, is_address

    if source == STDIN:
        return page_text(_stdin(), "<stdin>", max_bytes=MAX_SOURCE_BYTES)
    if not is_address(source):
        return read_page(os.path.expanduser(source), max_bytes=MAX_SOURCE_BYTES)
    urls = addresses((source,))
    if len(urls) > 1:
        raise InputError(
            f"`{without_credentials(source)}` names {len(urls)} servers",
            hint="give one of them: a plan is for one replica",
        )
    return _fetch(urls[0])


def log_text(source: str) -> str:
    """Start-up lines: a file, or `-`.

    Raises InputError for what cannot be read, for more than 64 MiB, and for what is not text.
    """
    hint = "give a file with the server's start-up lines"
    if source == STDIN:
        return _decode(_stdin(), "<stdin>", hint)
    path = os.path.expanduser(source)
    try:
        if os.path.isdir(path):
            raise InputError(f"`{source}` is a directory", hint=hint)
        with open_input(path) as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"cannot read `{source}`: {(error.strerror or 'error').lower()}", hint=hint
        ) from None
    except ValueError:
        raise InputError(f"`{source[:80]!r}` is not a path", hint=hint) from None
    return _decode(data, source, hint)


def _stdin() -> bytes:
    return sys.stdin.buffer.read(MAX_SOURCE_BYTES + 1)


def _fetch(address: str) -> str:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from warmset.meters.http import access, client, fetch

    async def page() -> str:
        how = access()
        async with client(how) as session:
            return await fetch(session, address, how)

    try:
        # In a thread of its own: the caller may have a running event loop, as notebooks do.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: asyncio.run(page())).result()
    except InputError as error:
        raise InputError(
            error.message,
            hint="check the address (a token is read from WARMSET_TOKEN), or save the page and give the file",
        ) from None


def _decode(data: bytes, source: str, hint: str) -> str:
    if len(data) > MAX_SOURCE_BYTES:
        raise InputError(f"`{source}` is larger than 64 MiB", hint="give only the start-up lines")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(
            f"`{source}` is not text", hint=f"{hint} as UTF-8 text; unpack a compressed one first"
        )
    return text
