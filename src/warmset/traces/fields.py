"""Reads single values of JSON rows strictly: the right type and range, or BadRow with the reason."""

import hashlib
import json
import math
from typing import Any

from warmset.traces.rows import BadRow

MAX_COUNT = 2**53


def parse_object(line: bytes) -> dict[str, Any]:
    """One JSON object; anything else, including nesting that no trace has, raises BadRow."""
    try:
        value = json.loads(line)
    except RecursionError:
        raise BadRow("JSON is nested too deeply") from None
    except (ValueError, UnicodeDecodeError):
        raise BadRow("not valid JSON, or cut short") from None
    if not isinstance(value, dict):
        raise BadRow("not a JSON object")
    return value


def count(row: dict[str, Any], key: str, *, default: int | None = None) -> int:
    """A whole number from 0 to 2**53 at `key`."""
    value = row.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        raise BadRow(f"`{key}` is not a count of tokens")
    return value


def time(row: dict[str, Any], *keys: str) -> float:
    """A finite number at the first of `keys` that is there; NaN where none is."""
    value = next((row[key] for key in keys if row.get(key) is not None), None)
    if value is None:
        return math.nan
    try:
        number = float("x" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadRow("the time is not a number")
    return number


def label(value: object) -> int:
    """A block id as 64 bits: integers from -2**63 to 2**64-1 as they are, text by its hash."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**64:
            raise BadRow("a block id does not fit 64 bits")
        return value & (2**64 - 1)
    if isinstance(value, str) and value:
        return int.from_bytes(hashlib.blake2b(value.encode("utf-8", "replace"), digest_size=8).digest())
    raise BadRow("a block id is neither an integer nor text")


def labels(row: dict[str, Any], key: str) -> list[int]:
    """The list of block ids at `key`."""
    value = row.get(key)
    if not isinstance(value, list):
        raise BadRow(f"`{key}` is not a list of block ids")
    return [label(v) for v in value]


def session(value: object) -> object:
    """A session label: text or an integer, or None."""
    if value is None or (isinstance(value, (str, int)) and not isinstance(value, bool)):
        return value
    raise BadRow("the session id is neither text nor an integer")
