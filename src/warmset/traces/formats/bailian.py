"""Bailian JSON lines: `{chat_id, parent_chat_id, timestamp, input_length, output_length, type, turn, hash_ids}`.

Ids are hashes of single blocks of 16 tokens; they are chained here, because ignoring that inflates hits.
Turns of a conversation are linked by `parent_chat_id`. Times are seconds. Source: alibaba-edu/qwen-bailian.
"""

from collections.abc import Iterator
from typing import Any

from warmset.traces import fields
from warmset.traces.chaining import chain
from warmset.traces.lines import read_lines
from warmset.traces.options import ReadOptions
from warmset.traces.rows import Problems, Rows, RowsBuilder
from warmset.traces.source import Source

TIME_UNIT = "s"
BLOCK_TOKENS = 16


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All requests; the session is the first chat of each chain of parents."""
    rows = RowsBuilder(options.block_tokens or BLOCK_TOKENS)
    first_chat: dict[object, object] = {}

    def add(line: int, row: dict[str, Any]) -> None:
        chat, parent = fields.session(row.get("chat_id")), fields.session(row.get("parent_chat_id"))
        session = chat if parent in (None, -1, "-1") else first_chat.get(parent, parent)
        rows.add(
            line,
            chain(fields.labels(row, "hash_ids")),
            fields.time(row, "timestamp"),
            fields.count(row, "input_length"),
            fields.count(row, "output_length", default=-1),
            session,
        )
        if chat is not None:
            first_chat[chat] = session

    return read_lines(source, problems, rows, add)
