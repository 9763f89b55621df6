"""This project's own format; see `warmset.traces.recorder_format`."""

import math
from collections.abc import Iterator

from warmset.errors import InputError
from warmset.traces.options import ReadOptions
from warmset.traces.recorder_format import decode_header, decode_request
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source

TIME_UNIT = "s"
_REQUESTS_PER_RUN = 20_000


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All requests. Several recordings in one file must agree on their block size."""
    rows: RowsBuilder | None = None
    for first_line, chunk in source.line_chunks():
        for number, line in enumerate(chunk.split(b"\n"), first_line):
            if not line.strip():
                continue
            try:
                if rows is None:
                    rows = RowsBuilder(decode_header(line).block_tokens)
                    continue
                request = decode_request(line)
                rows.add(
                    number,
                    request.blocks,
                    math.nan if request.arrival_seconds is None else request.arrival_seconds,
                    request.input_tokens,
                    -1 if request.output_tokens is None else request.output_tokens,
                    request.session,
                    request.tokens_per_block,
                )
            except (InputError, BadRow) as error:
                if rows is None:
                    raise InputError(f"`{problems.path}` line {number}: {error}") from None
                problems.bad(number, str(error))
            if rows is not None and len(rows) >= _REQUESTS_PER_RUN:
                yield rows.build()
    if rows is not None:
        yield rows.build()
