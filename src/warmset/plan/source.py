"""Fetches a server's own words: a file, or its metrics page over HTTP; bounded in size and time."""

from pathlib import Path
from urllib.parse import urlsplit

from warmset.errors import InputError
from warmset.units import MIB

MAX_SOURCE_BYTES = 64 * MIB
_TIMEOUT_SECONDS = 10.0


def read_source(source: str, what: str) -> str:
    """The text at `source`, a path or (for metrics) an http(s) URL; a bare host gets `/metrics`.

    Raises InputError for what cannot be read, for more than 64 MiB, and for what is not text.
    """
    if source.startswith(("http://", "https://")):
        return _decode(_fetch(source), source)
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            raise InputError(f"`{source}` is a directory", hint=f"give the file with the {what}")
        with path.open("rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"cannot read `{source}`: {(error.strerror or 'error').lower()}",
            hint=f"give a file with the {what}",
        ) from None
    except ValueError:
        raise InputError(f"`{source[:80]!r}` is not a path", hint=f"give a file with the {what}") from None
    return _decode(data, source)


def _fetch(url: str) -> bytes:
    import httpx

    parts = urlsplit(url)
    address = url.rstrip("/") + "/metrics" if parts.path in ("", "/") and not parts.query else url
    try:
        with httpx.stream("GET", address, timeout=_TIMEOUT_SECONDS, follow_redirects=True) as response:
            response.raise_for_status()
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > MAX_SOURCE_BYTES:
                    break
            return bytes(data)
    except httpx.HTTPStatusError as error:
        raise InputError(
            f"`{address}` answered {error.response.status_code}",
            hint="give the server's metrics page, `…/metrics`",
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise InputError(
            f"cannot reach `{address}`: {reason[:200]}",
            hint="check the address, or save the page and give the file",
        ) from None


def _decode(data: bytes, source: str) -> str:
    if len(data) > MAX_SOURCE_BYTES:
        raise InputError(
            f"`{source}` is larger than 64 MiB", hint="give one server's page, or only the start-up lines"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"`{source}` is not text", hint="give a text file") from None
