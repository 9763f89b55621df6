"""Mooncake JSON lines: `{timestamp, input_length, output_length, hash_ids}`.

Ids are prefix-chained and global. The last id may be a partial block. Keys that other tools add are read too:
`session_id`, `block_size` (tokens per full block) and `block_tokens` (tokens of each listed block).
Source: kvcache-ai/Mooncake, FAST25-release.
"""

from collections.abc import Iterator

import numpy as np

from warmset.traces import fields
from warmset.traces.chaining import rechained
from warmset.traces.formats.mooncake_fast import read_regular
from warmset.traces.formats.mooncake_uniform import read_uniform
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source

_PAST_SIGNED = 2**63
_LARGE = "block ids past 2^63"
TIME_UNIT = None  # milliseconds in the original; some tools write seconds


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All requests, in runs of some megabytes."""
    for first_line, chunk in source.line_chunks():
        rows = read_uniform(chunk, first_line) or read_regular(chunk, first_line)
        if rows is None:
            rows = read_exact(chunk, first_line, problems)
        elif len(rows.labels) and rows.labels.max() >= _PAST_SIGNED:
            access = int(np.argmax(rows.labels >= _PAST_SIGNED))
            _note_large(problems, int(rows.lines[np.searchsorted(rows.offsets, access, side="right") - 1]))
        yield rechained(rows) if options.rechain else rows


def read_exact(chunk: bytes, first_line: int, problems: Problems) -> Rows:
    """Rows of any chunk, line by line, with every fault reported by its line."""
    rows = RowsBuilder()
    for line_number, line in enumerate(chunk.split(b"\n"), first_line):
        if not line.strip():
            continue
        try:
            row = fields.parse_object(line)
            ids = fields.labels(row, "hash_ids")
            if any(type(value) is int and value >= _PAST_SIGNED for value in row["hash_ids"]):
                _note_large(problems, line_number)
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


def _note_large(problems: Problems, line: int) -> None:
    if not any(note.startswith(_LARGE) for note in problems.notes):
        problems.note(f"{_LARGE} are read as unsigned 64-bit numbers (first at line {line})")


def _block_tokens(value: object, blocks: int) -> list[int]:
    if not isinstance(value, list) or len(value) != blocks:
        raise BadRow("`block_tokens` does not have one entry per block id")
    return [min(fields.count({"block_tokens": tokens}, "block_tokens"), 2**31 - 1) for tokens in value]
