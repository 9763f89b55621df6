"""Reads regular Mooncake lines at the speed of numpy: what `read_exact` would give, or nothing.

Regular is what programs write: one object per line, no blanks but one behind a comma or colon, ids in plain
digits. Whatever differs is left to `read_exact`, so every rule of JSON has to be checked here or left to a parser.
"""

import json
import math
import re
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmset.traces import fields
from warmset.traces.rows import BadRow, Rows

_SATURATED = np.uint64(2**64 - 1)
_DIGITS = b"0123456789"
_BLANK, _COMMA, _POINT, _ZERO, _NINE, _COLON = (ord(c) for c in " ,.09:")
_COLON_TO_COMMA = bytes(_COMMA if c == _COLON else c for c in range(256))
_NOT_NUMERIC = bytes(c for c in range(256) if c not in _DIGITS + b".:")
NEEDED = {"timestamp", "input_length", "output_length", "hash_ids"}
_NUMERIC = NEEDED | {"block_size", "block_tokens", "session_id"}

# Neighbours become one number of twice the width: units, tens, hundreds … lie behind each other in a word.
_PAIRING = tuple(
    (np.uint64(10**digits * 2**bits + 1), np.uint64(bits), np.uint64(kept))
    for digits, bits, kept in (
        (1, 8, 0x00FF00FF00FF00FF),
        (2, 16, 0x0000FFFF0000FFFF),
        (4, 32, 0x00000000FFFFFFFF),
    )
)

_Counts = NDArray[np.int64]
_Columns = tuple[NDArray[np.float64], _Counts, _Counts, _Counts | list[object] | None, int | None]


def read_regular(chunk: bytes, first_line: int) -> Rows | None:
    """Rows of a regular chunk; None where anything is unusual.

    The long lists are cut out and parsed together; the short rest of each line is checked and parsed apart.
    """
    rest, ids = _cut_lists(chunk, b"hash_ids")
    if not ids:
        return None
    per_block: list[bytes] = []
    if b'"block_tokens"' in rest:
        rest, per_block = _cut_lists(rest, b"block_tokens")
        if len(per_block) != len(ids):
            return None
    if not rest.endswith(b"\n"):
        rest += b"\n"
    columns = _numeric_columns(rest, len(ids)) or _scalar_columns(rest, len(ids))
    lengths, labels = _parse_lists(ids)
    if columns is None or labels is None:
        return None
    tokens = None
    if per_block:
        counts, numbers = _parse_lists(per_block)
        if numbers is None or not np.array_equal(counts, lengths) or np.any(numbers >= 2**31):
            return None
        tokens = numbers.astype(np.int32)
    times, input_tokens, output_tokens, sessions, block_tokens = columns
    lines = np.arange(first_line, first_line + len(ids))
    return Rows(labels, lengths, times, input_tokens, output_tokens, lines, sessions, tokens, block_tokens)


def _cut_lists(text: bytes, key: bytes) -> tuple[bytes, list[bytes]]:
    """`text` with every `"key": [...]` replaced by `"key":0`, and the contents of the lists."""
    parts = re.split(rb'"' + key + rb'": ?\[([^\]]*)\]', text)
    return (b'"' + key + b'":0').join(parts[0::2]), parts[1::2]


def _parse_lists(lists: list[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint64] | None]:
    """How many numbers each list has, and all of them in one array; None unless they are plain digits."""
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    filled = lengths > 0
    counts = np.zeros(len(lists), np.int64)
    if not filled.any():
        return counts, np.zeros(0, np.uint64)
    # A comma on either side of every number, and room to read eight digits backwards.
    text = b"".join((b"0000000,", b",".join(lists if filled.all() else filter(None, lists)), b","))
    commas = _commas(text)
    # The comma behind each list.
    last = np.searchsorted(commas, np.cumsum(lengths[filled] + 1) + 7)
    counts[filled] = np.diff(last, prepend=0)
    return counts, _plain_numbers(text, commas)


def _commas(text: bytes) -> NDArray[np.int64]:
    """Where the commas of `text` are."""
    return np.flatnonzero(np.frombuffer(text, np.uint8) == _COMMA)


def _plain_numbers(text: bytes, commas: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    """The numbers between `commas`; None unless each is digits as JSON allows them, behind one blank at most."""
    each = np.frombuffer(text, np.uint8)
    starts, ends = commas[:-1] + 1, commas[1:]
    blank = each[starts] == _BLANK
    starts += blank
    digits = ends - starts
    if (
        each.max() > _NINE
        or np.count_nonzero(each < _ZERO) != len(commas) + np.count_nonzero(blank)
        or digits.min() < 1
        or np.any((each[starts] == _ZERO) & (digits > 1))
    ):
        return None
    if digits.max() <= 8:
        return up_to_eight_digits(text, ends, digits)
    numbers = _numbers(text[8:-1], np.dtype(np.uint64), ",")
    # The parser saturates: a full 2**64-1 may have been a longer number.
    return None if numbers is None or numbers.max() == _SATURATED else numbers


def up_to_eight_digits(text: bytes, ends: NDArray[np.int64], digits: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The numbers that end before `ends`, eight digits in one word at a time, three times as fast as a parser.

    The last digit of a number is in the highest byte of its word. Digits become pairs, pairs fours, fours eights.
    """
    words: NDArray[np.uint64] = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))[ends - 8]
    # What stands before the number becomes zeros in front of it. In place: one array stays in the processor's cache.
    ahead = (64 - 8 * digits).astype(np.uint64)
    words >>= ahead
    words <<= ahead
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)
    for factor, bits, kept in _PAIRING:
        words *= factor
        words >>= bits
        words &= kept
    return words


def _numbers(text: bytes, dtype: np.dtype[Any], separator: str) -> NDArray[Any] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy before 2.4 warns where later ones raise
        try:
            return np.fromstring(text, dtype=dtype, sep=separator)
        except (ValueError, DeprecationWarning):
            return None


def _numeric_columns(rest: bytes, requests: int) -> _Columns | None:
    """Columns of lines that differ in nothing but the digits of unsigned numbers; None for others."""
    first = rest[: rest.find(b"\n") + 1]
    try:
        row = fields.parse_object(first)
    except BadRow:
        return None
    line = first.translate(None, _DIGITS)
    names = b",".join(b'"%b":' % name.encode("utf-8", "replace") for name in row)
    if not (
        NEEDED <= set(row) <= _NUMERIC
        # Nothing but names and numbers: no sign, exponent or text. Only times have fractions.
        and line.translate(None, b" \t\r\n.") == b"{%b}" % names
        and line.count(b".") == isinstance(row["timestamp"], float)
        and rest.translate(None, _DIGITS) == line * requests
        and _digits_in_place(rest)
    ):
        return None
    text = b"".join((b"0000000", rest.translate(_COLON_TO_COMMA, _NOT_NUMERIC), b","))
    fractions = np.dtype(np.float64)
    numbers = _numbers(text[8:-1], fractions, ",") if b"." in line else _plain_numbers(text, _commas(text))
    # Up to 2**53 a float64 holds every whole number.
    if numbers is None or numbers.size != requests * len(row) or numbers.max() >= fields.MAX_COUNT:
        return None
    column = dict(zip(row, numbers.reshape(requests, len(row)).T, strict=True))
    counts = {name: values.astype(np.int64) for name, values in column.items() if name != "timestamp"}
    size = counts.get("block_size")
    if size is not None and (size.min() != size.max() or not 0 < size[0] < 2**31):
        return None
    return (
        column["timestamp"].astype(np.float64),
        counts["input_length"],
        counts["output_length"],
        counts.get("session_id"),
        None if size is None else int(size[0]),
    )


def _digits_in_place(rest: bytes) -> bool:
    """Whether every run of digits follows a colon, or the point of a fraction, and is a number that JSON allows."""
    each = np.frombuffer(rest, np.uint8)
    digit = (each - np.uint8(_ZERO)) < 10
    starts = np.flatnonzero(digit[1:] & ~digit[:-1]) + 1
    before = each[starts - 1]
    fraction = before == _POINT
    blank = before == _BLANK
    apart = starts[blank]
    points = starts[fraction] - 1
    whole = starts[~fraction]
    return bool(
        np.all((before == _COLON) | fraction | blank)
        and np.all(each[apart - 2] == _COLON)
        and np.all(digit[points - 1])
        and len(points) == np.count_nonzero(each == _POINT)
        and not np.any((each[whole] == _ZERO) & digit[whole + 1])
    )


def _scalar_columns(rest: bytes, requests: int) -> _Columns | None:
    """Columns of lines of flat values of the usual types; None where a type is unusual."""
    rest = rest.replace(b"\r\n", b"\n")
    # One flat pair of braces on each line, and nothing nested: list i belongs to line i.
    if not (
        rest.startswith(b"{")
        and rest.endswith(b"}\n")
        and rest.count(b"\n") == rest.count(b"{") == rest.count(b'"hash_ids"') == requests
        and rest.count(b"}\n{") == requests - 1
        and rest.count(b'"block_tokens"') in (0, requests)
        and b"[" not in rest
    ):
        return None
    try:
        rows = json.loads(b"[" + rest.rstrip(b"\n").replace(b"\n", b",") + b"]")
    except ValueError:
        return None
    if len(rows) != requests or not all(
        type(row) is dict and type(row.get("hash_ids")) is int for row in rows
    ):
        return None
    if len({type(row.get("block_tokens")) for row in rows}) > 1:
        return None
    if any(type(row.get("block_tokens", 0)) is not int for row in rows):
        return None

    def column(name: str, *types: type) -> list[Any] | None:
        values = [row.get(name) for row in rows]
        return values if set(map(type, values)) <= set(types) else None

    missing = type(None)
    times = column("timestamp", int, float, missing)
    inputs = column("input_length", int)
    outputs = column("output_length", int, missing)
    sessions = column("session_id", str, int, missing)
    sizes = set(column("block_size", int, missing) or ("mixed",))
    if times is None or inputs is None or outputs is None or sessions is None or len(sizes) != 1:
        return None
    size = sizes.pop()
    if size is not None and (isinstance(size, str) or not 0 < size < 2**31):
        return None
    if min(inputs) < 0 or any(tokens is not None and tokens < 0 for tokens in outputs):
        return None
    outputs = [-1 if tokens is None else tokens for tokens in outputs]
    if max(max(inputs), max(outputs)) > fields.MAX_COUNT:
        return None
    try:
        arrivals = np.array([math.nan if time is None else time for time in times], np.float64)
    except OverflowError:  # a whole number beyond any float
        return None
    if np.count_nonzero(~np.isfinite(arrivals)) != times.count(None):
        return None
    known = any(session is not None for session in sessions)
    return (
        arrivals,
        np.array(inputs, np.int64),
        np.array(outputs, np.int64),
        sessions if known else None,
        size,
    )
