"""CSV and Parquet with declared columns.

Our columns are `time`, `input_tokens`, `output_tokens`, `session` and `blocks`; `columns` maps them to the
file's own names. `blocks` is a list column, or text of ids split by blanks, commas or semicolons.
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from warmset.errors import InputError
from warmset.traces import fields
from warmset.traces.chaining import chain
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import Source

TIME_UNIT = None
COLUMNS = ("time", "input_tokens", "output_tokens", "session", "blocks")
_REQUIRED = ("input_tokens", "blocks")


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """All rows; numbers count data rows from 1, after a CSV's header from 2."""
    import pyarrow as pa

    unknown = set(options.columns) - set(COLUMNS)
    if unknown:
        raise InputError(f"unknown column `{min(unknown)}`", hint=f"declare some of {', '.join(COLUMNS)}")
    rows = RowsBuilder()
    number = 1
    try:
        for first, batch in _batches(source):
            number = max(number, first)
            names = {ours: options.columns.get(ours, ours) for ours in COLUMNS}
            missing = [ours for ours in _REQUIRED if names[ours] not in batch.schema.names]
            missing += [ours for ours in options.columns if names[ours] not in batch.schema.names]
            if missing:
                raise InputError(
                    f"`{problems.path}` has no column `{names[missing[0]]}`",
                    hint=f"declare it: `--column {missing[0]}=NAME`; the file has {', '.join(batch.schema.names)}",
                )
            for row in batch.select([n for n in names.values() if n in batch.schema.names]).to_pylist():
                try:
                    _add(rows, number, {ours: row.get(names[ours]) for ours in COLUMNS}, options)
                except BadRow as reason:
                    problems.bad(number, str(reason))
                number += 1
            yield rows.build()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(
            f"`{problems.path}` cannot be read as a table: {str(error).splitlines()[0]}",
            hint="give CSV with a header line, or Parquet; or name another format: `format:path`",
        ) from None


def _batches(source: Source) -> Iterator[tuple[int, Any]]:
    if source.head(4) == b"PAR1":
        from pyarrow import parquet

        with source.path.open("rb") as file:
            for batch in parquet.ParquetFile(file).iter_batches(batch_size=8192):
                yield 1, batch
        return
    from pyarrow import csv

    with source.open() as stream:
        for batch in csv.open_csv(stream, read_options=csv.ReadOptions(use_threads=False)):
            yield 2, batch


def _add(rows: RowsBuilder, number: int, row: dict[str, Any], options: ReadOptions) -> None:
    blocks = row["blocks"]
    if isinstance(blocks, str):
        blocks = [_id(text) for text in re.split(r"[\s,;\[\]]+", blocks) if text]
    elif blocks is None:
        blocks = []
    elif not isinstance(blocks, list):
        blocks = [blocks]
    labels = [fields.label(block) for block in blocks]
    moment = row["time"]
    if isinstance(moment, datetime):
        # Without a zone, a local one would make an hour of a change to summer time.
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        row["time"], rows.time_unit = zoned.timestamp(), "s"
    time = fields.time(row, "time") if moment is not None else math.nan
    rows.add(
        number,
        chain(labels) if options.rechain else labels,
        time,
        fields.count(row, "input_tokens"),
        fields.count(row, "output_tokens", default=-1),
        fields.session(row["session"]),
    )


def _id(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else text
