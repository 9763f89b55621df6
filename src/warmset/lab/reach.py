"""Asks a server over HTTP, with bounds, and says what to do when it does not answer as it should."""

import json
import time
from collections.abc import Mapping
from typing import Any

import httpx

from warmset.addresses import without_credentials
from warmset.errors import InputError

TIMEOUT_SECONDS = 30.0
MAX_BODY_BYTES = 64 << 20
# What httpx raises before and while it talks to a server; ValueError is a header that cannot be sent.
FAILURES = (httpx.HTTPError, httpx.InvalidURL, ValueError)


def get(url: str, headers: Mapping[str, str] | None = None) -> str:
    """The text of a page; InputError for anything but a whole answer of bounded size in bounded time."""
    shown, deadline = without_credentials(url), time.monotonic() + TIMEOUT_SECONDS
    body = bytearray()
    try:
        with httpx.stream(
            "GET", url, headers=dict(headers or {}), timeout=TIMEOUT_SECONDS, trust_env=False
        ) as answer:
            if answer.status_code != 200:
                raise _status_error(shown, answer.status_code)
            for part in answer.iter_bytes():
                body += part
                if len(body) > MAX_BODY_BYTES or time.monotonic() > deadline:
                    raise InputError(
                        f"`{shown}` answers without end",
                        hint="this is no OpenAI-compatible server; check the address",
                    )
    except FAILURES as error:
        raise InputError(
            f"no server answers at `{shown}`: {reason(error)}",
            hint="give the root URL of an OpenAI-compatible server, such as `http://localhost:8000`",
        ) from None
    return body.decode("utf-8", errors="replace")


def get_json(url: str, headers: Mapping[str, str] | None = None) -> Any:
    """The JSON of a page; InputError as `get`, and where it is none."""
    text = get(url, headers)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(
            f"`{without_credentials(url)}` answers something that is not JSON",
            hint="give the root URL of an OpenAI-compatible server, such as `http://localhost:8000`",
        ) from None


def reason(error: Exception) -> str:
    """An error of httpx in one line."""
    return f"{type(error).__name__} {str(error)[:200]}".rstrip()


def _status_error(shown: str, status: int) -> InputError:
    hint = "give the root URL of an OpenAI-compatible server that is up, such as `http://localhost:8000`"
    if status in (401, 403):
        hint = "give its key: `--header 'Authorization: Bearer KEY'`"
    elif shown.endswith("/metrics"):
        hint = "vLLM serves metrics on its API port; start SGLang with `--enable-metrics`"
    return InputError(f"`{shown}` answered with status {status}", hint=hint)
