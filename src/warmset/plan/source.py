"""Fetches a server's own words: a file, or its metrics page over HTTP; bounded in size and time."""

from pathlib import Path
from urllib.parse import urlsplit

from warmset.errors import InputError
from warmset.opening import open_input
from warmset.units import MIB

MAX_SOURCE_BYTES = 64 * MIB


def read_source(source: str, what: str) -> str:
    """The text at `source`, a path or (for metrics) an http(s) URL; a bare host gets `/metrics`.

    Raises InputError for what cannot be read, for more than 64 MiB, and for what is not text.
    """
    if source.startswith(("http://", "https://")):
        return _fetch(source)
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            raise InputError(f"`{source}` is a directory", hint=f"give the file with the {what}")
        with open_input(path) as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"cannot read `{source}`: {(error.strerror or 'error').lower()}",
            hint=f"give a file with the {what}",
        ) from None
    except ValueError:
        raise InputError(f"`{source[:80]!r}` is not a path", hint=f"give a file with the {what}") from None
    return _decode(data, source, what)


def _fetch(url: str) -> str:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from warmset.meters.http import access, client, fetch

    parts = urlsplit(url)
    address = url.rstrip("/") + "/metrics" if parts.path in ("", "/") and not parts.query else url

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


def _decode(data: bytes, source: str, what: str) -> str:
    if len(data) > MAX_SOURCE_BYTES:
        raise InputError(
            f"`{source}` is larger than 64 MiB", hint="give one server's page, or only the start-up lines"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(
            f"`{source}` is not text",
            hint=f"give a file with the {what} as UTF-8 text; unpack a compressed one first",
        )
    return text
