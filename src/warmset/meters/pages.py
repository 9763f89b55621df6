"""Saved pages of metrics as text: plain or gzip, UTF-8 or what PowerShell writes; bounded in size."""

import codecs
import gzip
import io
import zlib

from warmset.addresses import without_credentials
from warmset.errors import InputError
from warmset.opening import open_input

# A file may hold the pages of a whole fleet; a single server's page is bounded in http.py.
MAX_FILE_BYTES = 512 * 2**20


def read_page(path: str, *, max_bytes: int = MAX_FILE_BYTES) -> str:
    """The text of a saved page. Raises InputError where it is missing, empty, larger than `max_bytes`, or no text."""
    try:
        with open_input(path) as stream:
            raw = stream.read(max_bytes + 1)
    except IsADirectoryError:
        raise InputError(
            f"`{path}` is a directory", hint="give a page saved by `warmset snapshot URL > FILE`"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"`{without_credentials(path)}` cannot be read: {reason}",
            hint="save a page to a file first: `warmset snapshot http://localhost:8000 > before.prom`",
        ) from None
    return page_text(raw, path, max_bytes=max_bytes)


def page_text(raw: bytes, name: str, *, max_bytes: int = MAX_FILE_BYTES) -> str:
    """The text of a page as it is stored; `name` is for messages. Raises InputError as `read_page`."""
    if raw[:2] == b"\x1f\x8b":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
                raw = stream.read(max_bytes + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"`{name}` is damaged gzip: {error}", hint="save the page again") from None
    if len(raw) > max_bytes:
        raise InputError(
            f"`{name}` is larger than {max_bytes // 2**20} MiB",
            hint="save the metrics of fewer servers per file",
        )
    if not raw.strip():
        raise InputError(
            f"`{name}` is empty", hint="the server was not up when the page was saved; save it again"
        )
    # PowerShell's `>` writes UTF-16, and its `Set-Content` a mark before UTF-8.
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"`{name}` is not text", hint="save a page with `warmset snapshot URL > FILE`")
    return text
