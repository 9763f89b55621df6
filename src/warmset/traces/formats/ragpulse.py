"""RAG requests whose `hash_ids` is an object of component lists, such as RAGPulse.

Components (system prompt, passages, history, …) stand in the order of the prompt; ids name contents and are
chained here. The file has no token counts per component: the prompt's tokens are spread evenly over its ids.
Times are seconds. Source: flashserve/RAGPulse.
"""

from collections.abc import Iterator
from typing import Any

from warmset.traces import fields
from warmset.traces.chaining import chain
from warmset.traces.lines import read_lines
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source

TIME_UNIT = "s"
# Components are cut into pieces of at most this many tokens.
BLOCK_TOKENS = 512


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All requests; the session is `session_id`."""
    rows = RowsBuilder(options.block_tokens or BLOCK_TOKENS)

    def add(line: int, row: dict[str, Any]) -> None:
        components = row.get("hash_ids")
        if not isinstance(components, dict):
            raise BadRow("`hash_ids` is not an object of component lists")
        contents = [label for name in components for label in fields.labels(components, name)]
        input_tokens = fields.count(row, "input_length")
        listed = row.get("block_tokens")
        if listed is None:
            problems.note("tokens of a prompt are spread evenly over its ids: the file does not list them")
            tokens = _spread(input_tokens, len(contents))
        elif isinstance(listed, list) and len(listed) == len(contents):
            tokens = [fields.count({"block_tokens": value}, "block_tokens") for value in listed]
        else:
            raise BadRow("`block_tokens` does not have one entry per block id")
        rows.add(
            line,
            chain(contents),
            fields.time(row, "timestamp"),
            input_tokens,
            fields.count(row, "output_length", default=-1),
            fields.session(row.get("session_id")),
            tokens,
        )

    return read_lines(source, problems, rows, add)


def _spread(tokens: int, blocks: int) -> list[int]:
    each, rest = divmod(tokens, blocks) if blocks else (0, 0)
    return [min(2**31 - 1, each + (i < rest)) for i in range(blocks)]
