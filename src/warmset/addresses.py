"""Addresses as users type them: whether they can be one, and how they may be shown."""

import re
from urllib.parse import urlsplit

from warmset.errors import InputError


def is_http(url: str) -> bool:
    """Whether `url` can be the address of an HTTP server."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def check_endpoint(url: str) -> None:
    """Raise InputError for what is no address of an object store, or carries credentials; the message shows none."""
    if not is_http(url) or any(c in "@?#`$\\\"'" or c.isspace() or not c.isprintable() for c in url):
        raise InputError(
            f"endpoint `{bare(url)[:80]}` is not an address of an object store",
            hint="write it like `https://minio.example:9000`; credentials come from the environment",
        )


def bare(url: str) -> str:
    """As `without_credentials`, and without options: those of a store may hold its password."""
    return re.split("[?#]", without_credentials(url), maxsplit=1)[0]


def without_credentials(url: str) -> str:
    """The address without user and password, for messages and labels; also of text that is no address."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    # A password with a slash, a question mark or a hash in it must not show either: what follows a colon and is no
    # number of a port is one, wherever the `@` stands.
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    port = authority.rpartition("]")[2].partition(":")[2]
    has_credentials = "@" in authority or "@" in rest.partition("?")[0] or (port and not port.isdigit())
    return f"{scheme}{separator}{rest.rpartition('@')[2] if has_credentials else rest}"
