"""Addresses as users type them: whether they can be one, and how they may be shown."""

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
    if not is_http(url) or any(c in "@`$\\\"'" or c.isspace() or not c.isprintable() for c in url):
        raise InputError(
            f"endpoint `{url.rpartition('@')[2][:80]}` is not an address of an object store",
            hint="write it like `https://minio.example:9000`; credentials come from the environment",
        )


def without_credentials(url: str) -> str:
    """The address without user and password, for messages and labels; also of text that is no address."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    end = min((at for mark in "/?#" if (at := rest.find(mark)) >= 0), default=len(rest))
    # A password with a slash or a question mark in it must not show either.
    host = rest.rpartition("@")[2] if "@" in rest[:end] or "@" in rest.partition("?")[0] else rest
    return f"{scheme}{separator}{host}"
