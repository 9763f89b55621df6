"""CSV and Parquet with declared columns.

Our columns are `time`, `input_tokens`, `output_tokens`, `session` and `blocks`; `columns` maps them to the
file's own names. `blocks` is a list column, or text of ids split by blanks, commas or semicolons.
"""

import codecs
import io
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
    left_out: set[int] = set()
    try:
        for first, batch in _batches(source, options, problems, left_out):
            number = max(number, first)
            names = {ours: options.columns.get(ours, ours) for ours in COLUMNS}
            missing = [ours for ours in _REQUIRED if names[ours] not in batch.schema.names]
            missing += [ours for ours in options.columns if names[ours] not in batch.schema.names]
            if missing:
                raise InputError(
                    f"`{problems.path}` has no column `{names[missing[0]]}`",
                    hint=f"declare it: `--column {missing[0]}=NAME`; the file has {', '.join(batch.schema.names)}",
                )
            twice = [name for name in names.values() if batch.schema.names.count(name) > 1]
            if twice:
                raise InputError(
                    f"`{problems.path}` has two columns named `{twice[0]}`", hint="give each its own name"
                )
            for row in batch.select([n for n in names.values() if n in batch.schema.names]).to_pylist():
                while number in left_out:
                    number += 1
                try:
                    _add(rows, number, {ours: row.get(names[ours]) for ours in COLUMNS}, options)
                except BadRow as reason:
                    problems.bad(number, str(reason))
                number += 1
            yield rows.build()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # pyarrow tells of damage by OSError
        raise InputError(
            f"`{problems.path}` cannot be read as a table: {str(error).splitlines()[0]}",
            hint="give CSV with a header line, or Parquet; or name another format: `format:path`",
        ) from None


def _batches(
    source: Source, options: ReadOptions, problems: Problems, left_out: set[int]
) -> Iterator[tuple[int, Any]]:
    """Batches with the number of their file's first row; CSV rows of another width go to `left_out`."""
    with source.open() as stream:
        if source.head(4) == b"PAR1":
            from pyarrow import parquet

            # Parquet is read from its end: what is compressed as a whole has to be in memory.
            whole = (
                stream
                if isinstance(getattr(stream, "raw", None), io.FileIO)
                else io.BytesIO(source.document())
            )
            for batch in parquet.ParquetFile(whole).iter_batches(batch_size=8192):
                yield 1, batch
            return
        import pyarrow as pa
        from pyarrow import csv

        # A character that the end of the head cuts in two is no fault.
        codecs.getincrementaldecoder("utf-8")().decode(source.head())

        def other_width(row: Any) -> str:
            left_out.add(row.number)
            problems.bad(row.number, "the row has another number of columns than the header")
            return "skip"

        # Text, whatever it looks like: a type guessed from the first rows would refuse what comes later.
        text = {options.columns.get(ours, ours): pa.string() for ours in COLUMNS}
        yield from (
            (2, batch)
            for batch in csv.open_csv(
                stream,
                read_options=csv.ReadOptions(use_threads=False),
                parse_options=csv.ParseOptions(invalid_row_handler=other_width if options.skip_bad else None),
                convert_options=csv.ConvertOptions(column_types=text),
            )
        )


def _add(rows: RowsBuilder, number: int, row: dict[str, Any], options: ReadOptions) -> None:
    row = {ours: None if value == "" else value for ours, value in row.items()}
    blocks = row["blocks"]
    if isinstance(blocks, str):
        blocks = [_id(text) for text in re.split(r"[\s,;\[\]]+", blocks) if text]
    elif blocks is None:
        blocks = []
    elif not isinstance(blocks, list):
        blocks = [blocks]
    labels = [fields.label(block) for block in blocks]
    moment = _moment(row["time"])
    if isinstance(moment, datetime):
        # Without a zone, a local one would make an hour of a change to summer time.
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        moment, rows.time_unit = zoned.timestamp(), "s"
    rows.add(
        number,
        chain(labels) if options.rechain else labels,
        fields.time({"time": moment}, "time"),
        fields.count({"input_tokens": _count(row["input_tokens"])}, "input_tokens"),
        fields.count({"output_tokens": _count(row["output_tokens"])}, "output_tokens", default=-1),
        fields.session(row["session"]),
    )


def _id(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,20}", text) else text


def _count(value: Any) -> Any:
    """A number as CSV writes it; anything else stays, and is refused as what it is."""
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,17}(\.0*)?\s*", value):
        return int(float(value)) if "." in value else int(value)
    return value


def _moment(value: Any) -> Any:
    """A date where `value` is the text of one."""
    if isinstance(value, str) and re.match(r"\s*[0-9]{4}-", value):
        try:
            return datetime.fromisoformat(value.strip())
        except ValueError:
            return value
    return value
