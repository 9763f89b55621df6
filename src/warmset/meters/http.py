"""Fetching over HTTP with bounds: on time, on size, on redirects; and errors that say what to do."""

import asyncio
import os
import ssl
import zlib
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from warmset.addresses import without_credentials
from warmset.errors import InputError
from warmset.opening import open_input

if TYPE_CHECKING:
    import httpx

MAX_BODY_BYTES = 64 * 2**20
MAX_REDIRECTS = 5
# Hundreds of servers that do not answer must time out together, not one group after the other.
MAX_CONNECTIONS = 512
_MAX_SECRET = 16 * 2**10
_METRICS_TYPES = (
    "text/plain;version=1.0.0,text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.8"
)


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach servers: credentials come from files or the environment, and are never shown.

    Attributes:
        bearer: token of an `Authorization: Bearer` header.
        basic: (user, password).
        ca_file: certificate authority that servers are checked against, instead of the system's.
        timeout_seconds: bound of one whole answer, body included.
    """

    bearer: str | None = None
    basic: tuple[str, str] | None = None
    ca_file: Path | None = None
    timeout_seconds: float = 10.0

    def __repr__(self) -> str:
        return f"Access(timeout_seconds={self.timeout_seconds})"


def access(
    *,
    token_file: Path | None = None,
    basic_auth_file: Path | None = None,
    ca_file: Path | None = None,
    timeout_seconds: float = 10.0,
) -> Access:
    """Credentials from files, else from WARMSET_TOKEN and WARMSET_BASIC_AUTH (`user:password`); CA also from
    SSL_CERT_FILE.
    """
    token = _secret(token_file, "WARMSET_TOKEN")
    pair = _secret(basic_auth_file, "WARMSET_BASIC_AUTH")
    if token and pair:
        raise InputError(
            "both a bearer token and basic authentication are set",
            hint="unset one of WARMSET_TOKEN and WARMSET_BASIC_AUTH",
        )
    basic = None
    if pair:
        user, separator, password = pair.partition(":")
        if not separator:
            raise InputError("the basic authentication has no colon", hint="write it as `user:password`")
        basic = (user, password)
    return Access(token, basic, ca_file, timeout_seconds)


def client(how: Access) -> "httpx.AsyncClient":
    """An HTTP client with these credentials and bounds."""
    import httpx

    headers = {"Accept": _METRICS_TYPES, "Accept-Encoding": "gzip", "User-Agent": "warmset"}
    if how.bearer:
        headers["Authorization"] = f"Bearer {how.bearer}"
    verify = _tls(how.ca_file)
    try:
        return httpx.AsyncClient(
            headers=headers,
            auth=how.basic,
            verify=verify,
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            timeout=httpx.Timeout(how.timeout_seconds),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
        )
    except OSError as error:  # ssl.SSLError is one, too
        raise InputError(
            f"the certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be used: {error.strerror or error}",
            hint="correct the variable, or unset it",
        ) from None
    except (ValueError, httpx.InvalidURL):  # may hold a password: not repeated
        raise InputError(
            "a proxy in the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) is no usable address",
            hint="correct it, or unset it",
        ) from None


async def fetch(
    session: "httpx.AsyncClient",
    url: str,
    how: Access,
    params: dict[str, str] | None = None,
    *,
    any_status: bool = False,
) -> str:
    """The body as text. Raises InputError for anything but a complete answer of bounded size in bounded time."""
    import httpx

    shown = without_credentials(url)
    try:
        async with asyncio.timeout(how.timeout_seconds), session.stream("GET", url, params=params) as answer:
            body = await _body(answer, shown)
            if answer.status_code >= 400 and not any_status:
                raise _status_error(shown, answer.status_code)
            return body.decode("utf-8", errors="replace")
    except TimeoutError:
        raise InputError(
            f"`{shown}` did not answer completely within {how.timeout_seconds:g} s",
            hint="check host and port, or allow more with `--timeout`",
        ) from None
    except httpx.TooManyRedirects:
        raise InputError(
            f"`{shown}` redirects in a loop", hint="give the final address, ending in `/metrics`"
        ) from None
    except httpx.TimeoutException:
        raise InputError(
            f"`{shown}` did not answer within {how.timeout_seconds:g} s",
            hint="check host and port, or allow more with `--timeout`",
        ) from None
    except httpx.ConnectError as error:
        raise _connect_error(shown, error) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OverflowError, ExceptionGroup) as error:
        raise InputError(
            f"`{shown}` gave no usable answer: {type(error).__name__}: {str(error)[:120]}",
            hint="check that this port speaks HTTP (or HTTPS) and serves `/metrics`",
        ) from None


async def _body(answer: "httpx.Response", shown: str) -> bytearray:
    """The body, unpacked here and not by the client, which takes a cut stream for a whole one and unpacks without
    bound.
    """
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip", "x-gzip"):
        raise InputError(
            f"`{shown}` answers in encoding `{encoding[:40]}`, which was not asked for",
            hint="the proxy in front of the server must respect Accept-Encoding",
        )
    unpack = zlib.decompressobj(wbits=31) if encoding.endswith("gzip") else None
    body = bytearray()
    async for part in answer.aiter_raw():
        try:
            body += part if unpack is None else unpack.decompress(part, MAX_BODY_BYTES + 1 - len(body))
        except zlib.error as error:
            raise InputError(
                f"`{shown}` answered damaged gzip: {error}",
                hint="fetch it again; check the proxy in front of it",
            ) from None
        if len(body) > MAX_BODY_BYTES:
            raise InputError(
                f"`{shown}` answered more than {MAX_BODY_BYTES // 2**20} MiB",
                hint="this is no page of metrics of one server; check the address",
            )
    if unpack is not None and not unpack.eof:
        raise InputError(
            f"`{shown}` answered gzip that ends too early",
            hint="fetch it again; check the proxy in front of it",
        )
    return body


def _status_error(shown: str, status: int) -> InputError:
    hints = {
        401: "give a token: WARMSET_TOKEN in the environment, or `--token-file`",
        403: "give a token that may read metrics: WARMSET_TOKEN in the environment, or `--token-file`",
        404: "check the path: vLLM serves `/metrics` on its API port, SGLang only with `--enable-metrics`",
    }
    return InputError(
        f"`{shown}` answered HTTP {status}", hint=hints.get(status, "check that the server is up and healthy")
    )


def _connect_error(shown: str, error: Exception) -> InputError:
    text = str(error)
    lower = text.lower()
    if "certificate" in lower or "ssl" in lower or "tls" in lower:
        if "wrong version number" in lower or "record layer" in lower:
            return InputError(
                f"`{shown}`: this port speaks no TLS", hint="use `http://`, or the port that serves HTTPS"
            )
        why = "the certificate has expired" if "expired" in lower else text[:160]
        return InputError(
            f"`{shown}`: TLS failed: {why}",
            hint="renew the certificate, or name its authority with `--ca-file FILE`",
        )
    if (
        "name or service" in lower
        or "nodename" in lower
        or "temporary failure" in lower
        or "getaddrinfo" in lower
    ):
        return InputError(f"`{shown}`: the host name is not known", hint="check the name, or use the address")
    return InputError(
        f"`{shown}`: nothing answers there ({text[:80]})",
        hint="check host and port, and that the server is up",
    )


def _tls(ca_file: Path | None) -> ssl.SSLContext | bool:
    if ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"CA file `{ca_file}` cannot be used: {error}", hint="give certificates in PEM form"
        ) from None


def _secret(file: Path | None, variable: str) -> str | None:
    if file is None:
        return _sendable(os.environ.get(variable, "").strip(), variable) or None
    try:
        with TextIOWrapper(open_input(file), encoding="utf-8") as stream:
            text = stream.read(_MAX_SECRET + 1).strip()
    except OSError as error:
        raise InputError(
            f"file `{file}` cannot be read: {error.strerror}", hint="check its path and permissions"
        ) from None
    except UnicodeDecodeError:
        raise InputError(
            f"file `{file}` is not text", hint="it must hold the secret and nothing else"
        ) from None
    if not text:
        raise InputError(f"file `{file}` is empty", hint="it must hold the secret and nothing else")
    return _sendable(text, str(file))


def _sendable(text: str, where: str) -> str:
    """The secret, if it can stand in a header; the message must not repeat it."""
    if len(text) > _MAX_SECRET or not text.isascii() or not text.isprintable():
        raise InputError(
            f"the secret in `{where}` is too long, or has characters that no header can carry",
            hint="it must be one line of plain ASCII text",
        )
    return text
