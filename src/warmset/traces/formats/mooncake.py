"""Mooncake JSON lines: `{timestamp, input_length, output_length, hash_ids}`.

Ids are prefix-chained and global. The last id may be a partial block. Keys that other tools add are read too:
`session_id`, `block_size` (tokens per full block) and `block_tokens` (tokens of each listed block).
Source: kvcache-ai/Mooncake, FAST25-release.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmset.traces import fields
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows
from warmset.traces.source import Source

TIME_UNIT = None  # milliseconds in the original; some tools write seconds
_SATURATED = np.uint64(2**64 - 1)


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All requests, in runs of some megabytes."""
    for first_line, chunk in source.line_chunks():
        rows = _read_fast(chunk, first_line)
        yield rows if rows is not None else _read_exact(chunk, first_line, problems)


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
    lines = rest.count(b"\n") + (not rest.endswith(b"\n"))
    # One flat object per line and nothing nested: list i belongs to line i.
    if lines != requests or rest.count(b"{") != requests or b"[" in rest or b"\0" in rest:
        return None
    columns = _scalar_columns(rest, requests)
    labels = _parse_numbers(ids)
    if columns is None or labels is None:
        return None
    lengths = _counts(ids)
    tokens = None
    if per_block is not None:
        numbers = _parse_numbers(per_block)
        if numbers is None or np.any(_counts(per_block) != lengths) or np.any(numbers >= 2**31):
            return None
        tokens = numbers.astype(np.int32)
    if len(labels) != int(lengths.sum()):
        return None
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
    """`text` with every `"key": [digits]` replaced by `"key":0`, and the contents of the lists."""
    parts = re.split(rb'"' + key + rb'"\s{0,9}:\s{0,9}\[([0-9, ]*)\]', text)
    if len(parts) < 3:
        return text, None
    return (b'"' + key + b'":0').join(parts[0::2]), parts[1::2]


def _counts(lists: list[bytes]) -> NDArray[np.int64]:
    return np.fromiter(
        (text.count(b",") + 1 if text and not text.isspace() else 0 for text in lists), np.int64, len(lists)
    )


def _parse_numbers(lists: list[bytes]) -> NDArray[np.uint64] | None:
    text = b",".join([item for item in lists if item and not item.isspace()])
    try:
        numbers = np.fromstring(text, dtype=np.uint64, sep=",")
    except (ValueError, DeprecationWarning):
        return None
    # The parser saturates: a full 2**64-1 may have been a longer number.
    return None if len(numbers) and numbers.max() == _SATURATED else numbers


_Columns = tuple[
    NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], list[object] | None, int | None
]


def _scalar_columns(rest: bytes, requests: int) -> _Columns | None:
    import pyarrow as pa
    from pyarrow import json as pyarrow_json

    try:
        table = pyarrow_json.read_json(
            pa.BufferReader(rest),
            read_options=pyarrow_json.ReadOptions(use_threads=False, block_size=max(1 << 20, len(rest) + 1)),
        )
    except pa.ArrowException:
        return None
    names = table.column_names
    if table.num_rows != requests or len(set(names)) != len(names):
        return None

    def column(name: str) -> Any:
        return table.column(name) if name in names and table.column(name).type != pa.null() else None

    whole, marker = pa.int64(), column("hash_ids")
    if marker is None or marker.null_count:
        return None
    input_length, output_length = column("input_length"), column("output_length")
    if input_length is None or input_length.type != whole or input_length.null_count:
        return None
    if output_length is not None and output_length.type != whole:
        return None
    timestamp = column("timestamp")
    if timestamp is not None and timestamp.type not in (whole, pa.float64()):
        return None
    session = column("session_id")
    if session is not None and session.type not in (whole, pa.string()):
        return None
    size, block_tokens = column("block_size"), None
    if size is not None:
        values = size.unique()
        if size.type != whole or len(values) != 1 or not 0 < values[0].as_py() < 2**31:
            return None
        block_tokens = values[0].as_py()
    input_tokens = input_length.to_numpy()
    output_tokens = np.full(requests, -1) if output_length is None else output_length.fill_null(-1).to_numpy()
    if input_tokens.min() < 0 or output_tokens.min() < -1:
        return None
    times = (
        np.full(requests, np.nan) if timestamp is None else timestamp.to_numpy().astype(np.float64, copy=False)
    )
    return times, input_tokens, output_tokens, None if session is None else session.to_pylist(), block_tokens


def _read_exact(chunk: bytes, first_line: int, problems: Problems) -> Rows:
    """Rows of any chunk, line by line, with every fault reported by its line."""
    labels: list[int] = []
    tokens: list[int] = []
    rows: list[tuple[int, float, int, int, int, object]] = []
    block_tokens: int | None = None
    listed = 0
    for line_number, line in enumerate(chunk.split(b"\n"), first_line):
        if not line.strip():
            continue
        try:
            row = fields.parse_object(line)
            ids = fields.labels(row, "hash_ids")
            size = row.get("block_size")
            if size is not None:
                size = fields.count(row, "block_size")
                if block_tokens not in (None, size) or not 0 < size < 2**31:
                    raise BadRow("`block_size` differs from the lines before" if size else "`block_size` is 0")
            per_block = row.get("block_tokens")
            if per_block is not None:
                per_block = _block_tokens(per_block, len(ids))
            read_row = (
                len(ids),
                fields.time(row, "timestamp"),
                fields.count(row, "input_length"),
                fields.count(row, "output_length", default=-1),
                line_number,
                fields.session(row.get("session_id")),
            )
        except BadRow as reason:
            problems.bad(line_number, str(reason))
            continue
        block_tokens = size if block_tokens is None else block_tokens
        labels += ids
        listed += per_block is not None
        tokens += per_block or []
        rows.append(read_row)
    if listed not in (0, len(rows)):
        problems.bad(first_line, "only some lines list `block_tokens`")
        tokens, listed = [], 0
    lengths, times, inputs, outputs, lines, sessions = zip(*rows, strict=True) if rows else ((),) * 6
    return Rows(
        np.array(labels, np.uint64),
        np.array(lengths, np.int64),
        np.array(times, np.float64),
        np.array(inputs, np.int64),
        np.array(outputs, np.int64),
        np.array(lines, np.int64),
        sessions if any(s is not None for s in sessions) else None,
        np.array(tokens, np.int32) if listed else None,
        block_tokens,
    )


def _block_tokens(value: object, blocks: int) -> list[int]:
    if not isinstance(value, list) or len(value) != blocks:
        raise BadRow("`block_tokens` does not have one entry per block id")
    return [fields.count({"block_tokens": tokens}, "block_tokens") for tokens in value]
