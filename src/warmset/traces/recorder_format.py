"""The project's own trace format, `warmset.trace/1`: JSON lines, usually gzipped.

The first line is the header; every further line is one request. Writers need nothing but the standard
library: the recorder runs inside a server. `docs/reference/trace-format.md` describes the same for people.

    {"format":"warmset.trace/1","block_tokens":16,"salted":true}
    {"t":0.0,"in":1322,"out":36,"hit_device":0,"blocks":"AAAAAAAAAAABAAAAAAAAAA=="}
"""

import base64
import binascii
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warmset.errors import InputError

FORMAT = "warmset.trace/1"
MAX_TOKENS = 2**53
_KEYS_OF_COUNTS = ("in", "out", "hit_device", "hit_external")


@dataclass(frozen=True, slots=True)
class Header:
    """What holds for the whole trace.

    Attributes:
        block_tokens: tokens per full block.
        salted: ids were hashed with a secret salt, so they cannot be compared with those of other traces.
        about: anything else the writer said (server, model, start of the recording).
    """

    block_tokens: int
    salted: bool
    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as recorded; None where the writer did not know.

    Attributes:
        arrival_seconds: since the start of the trace.
        input_tokens: tokens of the prompt.
        output_tokens: tokens generated.
        hit_device_tokens: prompt tokens that the server found in its device tier.
        hit_external_tokens: prompt tokens that it loaded from tiers below.
        blocks: 64-bit ids of the prompt's blocks, prefix-chained, root first.
        session: label of the session.
        tokens_per_block: tokens of each listed block where they are not all full.
    """

    arrival_seconds: float | None
    input_tokens: int
    output_tokens: int | None
    hit_device_tokens: int | None
    hit_external_tokens: int | None
    blocks: tuple[int, ...]
    session: str | int | None
    tokens_per_block: tuple[int, ...] | None


def encode_header(block_tokens: int, *, salted: bool, **about: Any) -> bytes:
    """The first line of a trace, with its newline."""
    return _line({"format": FORMAT, "block_tokens": block_tokens, "salted": salted, **about})


def encode_request(
    arrival_seconds: float | None,
    input_tokens: int,
    output_tokens: int | None,
    blocks: Sequence[int] | bytes,
    *,
    hit_device_tokens: int | None = None,
    hit_external_tokens: int | None = None,
    session: str | int | None = None,
    tokens_per_block: Sequence[int] | None = None,
) -> bytes:
    """One request as a line with its newline.

    `blocks` are unsigned 64-bit ids, or the same packed little-endian. Times keep microseconds.
    """
    row: dict[str, Any] = {
        "t": None if arrival_seconds is None else round(arrival_seconds, 6),
        "in": input_tokens,
        "out": output_tokens,
    }
    if hit_device_tokens is not None:
        row["hit_device"] = hit_device_tokens
    if hit_external_tokens is not None:
        row["hit_external"] = hit_external_tokens
    if session is not None:
        row["session"] = session
    packed = blocks if isinstance(blocks, bytes) else struct.pack(f"<{len(blocks)}Q", *blocks)
    row["blocks"] = base64.b64encode(packed).decode("ascii")
    if tokens_per_block is not None:
        row["tokens"] = list(tokens_per_block)
    return _line(row)


def decode_header(line: bytes | str) -> Header:
    """Read the first line of a trace; raises InputError where it is not a header of this version."""
    row = _object(line)
    form = row.pop("format", None)
    if form != FORMAT:
        raise InputError(f"not a `{FORMAT}` header: format is `{str(form)[:60]}`")
    block_tokens, salted = row.pop("block_tokens", None), row.pop("salted", False)
    if type(block_tokens) is not int or not 0 < block_tokens < 2**31:
        raise InputError(f"the header's `block_tokens` is `{str(block_tokens)[:60]}`, not a positive count")
    return Header(block_tokens, salted is True, row)


def decode_request(line: bytes | str) -> Request:
    """Read one request; raises InputError with the reason where it is malformed."""
    row = _object(line)
    counts = [row.get(key) for key in _KEYS_OF_COUNTS]
    for key, value in zip(_KEYS_OF_COUNTS, counts, strict=True):
        if (value is None and key != "in") or (type(value) is int and 0 <= value <= MAX_TOKENS):
            continue
        raise InputError(f"`{key}` is not a count of tokens")
    arrival = row.get("t")
    if arrival is not None and (type(arrival) not in (int, float) or not -1e300 < arrival < 1e300):
        raise InputError("`t` is not a time in seconds")
    session = row.get("session")
    if session is not None and type(session) not in (str, int):
        raise InputError("`session` is neither text nor an integer")
    blocks = _blocks(row.get("blocks"))
    tokens = row.get("tokens")
    if tokens is not None and (
        not isinstance(tokens, list)
        or len(tokens) != len(blocks)
        or any(type(count) is not int or not 0 <= count < 2**31 for count in tokens)
    ):
        raise InputError("`tokens` does not have one count per block")
    return Request(
        None if arrival is None else float(arrival),
        row["in"],
        row.get("out"),
        row.get("hit_device"),
        row.get("hit_external"),
        blocks,
        session,
        None if tokens is None else tuple(tokens),
    )


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":"), allow_nan=False).encode("utf-8") + b"\n"


def _object(line: bytes | str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError("not valid JSON, or cut short") from None
    if not isinstance(row, dict):
        raise InputError("not a JSON object")
    return row


def _blocks(value: object) -> tuple[int, ...]:
    if isinstance(value, list):
        if any(type(block) is not int or not 0 <= block < 2**64 for block in value):
            raise InputError("`blocks` holds something that is no unsigned 64-bit id")
        return tuple(value)
    try:
        packed = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        packed = None
    if packed is None or len(packed) % 8:
        raise InputError("`blocks` is neither a list of ids nor base64 of packed 64-bit ids")
    return struct.unpack(f"<{len(packed) // 8}Q", packed)
