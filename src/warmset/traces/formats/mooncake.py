"""Mooncake JSON lines: `{timestamp, input_length, output_length, hash_ids}`.

Ids are prefix-chained and global. The last id may be a partial block. Keys that other tools add are read too:
`session_id`, `block_size` (tokens per full block) and `block_tokens` (tokens of each listed block).
Source: kvcache-ai/Mooncake, FAST25-release.
"""

import json
import math
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmset.traces import fields
from warmset.traces.chaining import rechained
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source

TIME_UNIT = None  # milliseconds in the original; some tools write seconds
_SATURATED = np.uint64(2**64 - 1)


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All requests, in runs of some megabytes."""
    for first_line, chunk in source.line_chunks():
        rows = _read_fast(chunk, first_line)
        rows = rows if rows is not None else _read_exact(chunk, first_line, problems)
        yield rechained(rows) if options.rechain else rows


def _read_fast(chunk: bytes, first_line: int) -> Rows | None:
    """Rows of a regular chunk at the speed of numpy; None where anything is unusual.

    The long lists are cut out and parsed together; the short rest of each line goes through a JSON parser.
    """
    rest, ids = _cut_lists(chunk, b"hash_ids")
    if ids is None:
        return None
    per_block = None
    if b'"block_tokens"' in rest:
        rest, per_block = _cut_lists(rest, b"block_tokens")
        if per_block is None or len(per_block) != len(ids):
            return None
    requests = len(ids)
    if not rest.endswith(b"\n"):
        rest += b"\n"
    columns = _numeric_columns(rest, requests) or _scalar_columns(rest, requests)
    lengths = _counts(ids)
    labels = _parse_numbers(ids, lengths)
    if columns is None or labels is None:
        return None
    tokens = None
    if per_block is not None:
        numbers = _parse_numbers(per_block, _counts(per_block))
        if numbers is None or np.any(_counts(per_block) != lengths) or np.any(numbers >= 2**31):
            return None
        tokens = numbers.astype(np.int32)
    times, input_tokens, output_tokens, sessions, block_tokens = columns
    return Rows(
        labels,
        lengths,
        times,
        input_tokens,
        output_tokens,
        np.arange(first_line, first_line + requests),
        sessions,
        tokens,
        block_tokens,
    )


def _cut_lists(text: bytes, key: bytes) -> tuple[bytes, list[bytes] | None]:
    """`text` with every `"key": [...]` replaced by `"key":0`, and the contents of the lists."""
    parts = re.split(rb'"' + key + rb'"\s{0,9}:\s{0,9}\[([^\]]*)\]', text)
    if len(parts) < 3:
        return text, None
    return (b'"' + key + b'":0').join(parts[0::2]), parts[1::2]


def _counts(lists: list[bytes]) -> NDArray[np.int64]:
    ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
    commas = np.flatnonzero(np.frombuffer(b"".join(lists), np.uint8) == ord(","))
    counts = np.diff(np.searchsorted(commas, ends), prepend=0) + 1
    for index in np.flatnonzero(counts == 1):
        counts[index] = bool(lists[index].strip())
    return counts


def _parse_numbers(lists: list[bytes], counts: NDArray[np.int64]) -> NDArray[np.uint64] | None:
    """All numbers of `lists` in one array; None unless each list is plain digits, commas and blanks."""
    if not counts.all():
        lists = [text for text, some in zip(lists, counts, strict=True) if some]
    text = b",".join(lists)
    if b"-" in text or b"+" in text or b"\n" in text or b'"' in text:
        return None
    numbers = _numbers(text, np.dtype(np.uint64), ",")
    # The parser saturates: a full 2**64-1 may have been a longer number.
    if numbers is None or len(numbers) != counts.sum() or (len(numbers) and numbers.max() == _SATURATED):
        return None
    return numbers


def _numbers(text: bytes, dtype: np.dtype[Any], separator: str) -> NDArray[Any] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy before 2.4 warns where later ones raise
        try:
            return np.fromstring(text, dtype=dtype, sep=separator)
        except (ValueError, DeprecationWarning):
            return None


_Columns = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], list[object] | None, int | None]


_DIGITS = b"0123456789"
_COLON_TO_BLANK = bytes(32 if c in b":\t\r\n" else c for c in range(256))
_NOT_NUMERIC = bytes(c for c in range(256) if c not in _DIGITS + b".: \t\r\n")


def _numeric_columns(rest: bytes, requests: int) -> _Columns | None:
    """Columns of lines that differ in nothing but the digits of unsigned numbers; None for others."""
    first = rest[: rest.find(b"\n") + 1]
    try:
        row = fields.parse_object(first)
    except BadRow:
        return None
    skeleton = first.translate(None, _DIGITS)
    needed = {"timestamp", "input_length", "output_length", "hash_ids"}
    names = needed | {"block_size", "block_tokens", "session_id"}
    if (
        not needed <= set(row) <= names
        # Nothing but names and numbers: no sign, exponent or text.
        or skeleton.translate(None, b" \t\r\n.")
        != b"{" + b",".join(b'"%b":' % n.encode() for n in row) + b"}"
        or rest.translate(None, _DIGITS) != skeleton * requests
    ):
        return None
    dtype = np.dtype(np.float64 if b"." in skeleton else np.int64)
    numbers = _numbers(rest.translate(_COLON_TO_BLANK, _NOT_NUMERIC), dtype, " ")
    if numbers is None or numbers.size != requests * len(row) or numbers.max() > fields.MAX_COUNT:
        return None
    column = dict(zip(row, numbers.reshape(requests, len(row)).T, strict=True))
    whole = {name: values.astype(np.int64) for name, values in column.items() if name != "timestamp"}
    if any(np.any(whole[name] != column[name]) for name in whole):
        return None
    size = whole.get("block_size")
    if size is not None and (size.min() != size.max() or not 0 < size[0] < 2**31):
        return None
    return (
        column["timestamp"].astype(np.float64),
        whole["input_length"],
        whole["output_length"],
        whole["session_id"].tolist() if "session_id" in whole else None,
        None if size is None else int(size[0]),
    )


def _scalar_columns(rest: bytes, requests: int) -> _Columns | None:
    """Columns of lines of flat values of the usual types; None where a type is unusual."""
    # One flat object per line and nothing nested: list i belongs to line i.
    if rest.count(b"\n") != requests or rest.count(b"{") != requests or b"[" in rest:
        return None
    try:
        rows = json.loads(b"[" + rest.rstrip().replace(b"\n", b",") + b"]")
    except ValueError:
        return None
    if len(rows) != requests or any("hash_ids" not in row for row in rows):
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
    outputs = [-1 if tokens is None else tokens for tokens in outputs]
    if min(inputs) < 0 or max(max(inputs), max(outputs)) > fields.MAX_COUNT or min(outputs) < -1:
        return None
    if size is not None and (isinstance(size, str) or not 0 < size < 2**31):
        return None
    arrivals = np.array([math.nan if time is None else time for time in times], np.float64)
    if np.count_nonzero(~np.isfinite(arrivals)) != times.count(None):
        return None
    known = any(session is not None for session in sessions)
    return arrivals, np.array(inputs), np.array(outputs), sessions if known else None, size


def _read_exact(chunk: bytes, first_line: int, problems: Problems) -> Rows:
    """Rows of any chunk, line by line, with every fault reported by its line."""
    rows = RowsBuilder()
    for line_number, line in enumerate(chunk.split(b"\n"), first_line):
        if not line.strip():
            continue
        try:
            row = fields.parse_object(line)
            ids = fields.labels(row, "hash_ids")
            size = None if row.get("block_size") is None else fields.count(row, "block_size")
            if size is not None and not (0 < size < 2**31 and rows.block_tokens in (None, size)):
                raise BadRow("`block_size` is 0, or differs from the lines before")
            per_block = row.get("block_tokens")
            rows.add(
                line_number,
                ids,
                fields.time(row, "timestamp"),
                fields.count(row, "input_length"),
                fields.count(row, "output_length", default=-1),
                fields.session(row.get("session_id")),
                None if per_block is None else _block_tokens(per_block, len(ids)),
            )
            rows.block_tokens = size or rows.block_tokens
        except BadRow as reason:
            problems.bad(line_number, str(reason))
    return rows.build()


def _block_tokens(value: object, blocks: int) -> list[int]:
    if not isinstance(value, list) or len(value) != blocks:
        raise BadRow("`block_tokens` does not have one entry per block id")
    return [min(fields.count({"block_tokens": tokens}, "block_tokens"), 2**31 - 1) for tokens in value]
