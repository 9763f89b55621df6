"""The loop that all row-by-row readers of JSON lines share."""

from collections.abc import Callable, Iterator
from typing import Any

from warmset.traces import fields
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source

_REQUESTS_PER_RUN = 20_000


def read_lines(
    source: Source,
    problems: Problems,
    rows: RowsBuilder,
    add: Callable[[int, dict[str, Any]], None],
) -> Iterator[Rows]:
    """Call `add(line, object)` for every line, and yield what it put into `rows` now and then."""
    for first_line, chunk in source.line_chunks():
        for line_number, line in enumerate(chunk.split(b"\n"), first_line):
            if not line.strip():
                continue
            try:
                add(line_number, fields.parse_object(line))
            except BadRow as reason:
                problems.bad(line_number, str(reason))
            if len(rows) >= _REQUESTS_PER_RUN:
                yield rows.build()
    yield rows.build()
