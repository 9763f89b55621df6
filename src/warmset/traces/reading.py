"""Finds the reader for a trace file and runs it: whole, or as a stream of chunks."""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmset.errors import InputError
from warmset.traces.assemble import DEFAULT_REQUESTS_PER_CHUNK, assemble, assemble_stream
from warmset.traces.detect import detect
from warmset.traces.options import TIME_UNITS, ReadOptions
from warmset.traces.record import Trace
from warmset.traces.rows import Problems
from warmset.traces.source import Source

# name → module with `read(source, options, problems)` and `TIME_UNIT`.
FORMATS = {
    "mooncake": "warmset.traces.formats.mooncake",
    "bailian": "warmset.traces.formats.bailian",
    "agent": "warmset.traces.formats.agent",
    "ragpulse": "warmset.traces.formats.ragpulse",
    "warmset": "warmset.traces.formats.recorder",
    "kv-events": "warmset.traces.formats.kv_events",
    "openai": "warmset.traces.formats.openai",
    "sharegpt": "warmset.traces.formats.sharegpt",
    "csv": "warmset.traces.formats.table",
    "parquet": "warmset.traces.formats.table",
    "table": "warmset.traces.formats.table",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A trace, and what reading it took.

    Attributes:
        trace: the traffic.
        format: name of the reader.
        skipped: reason → rows left out (with `skip_bad`).
        first_lines: reason → line of the first such row.
        notes: what was detected or assumed.
    """

    trace: Trace
    format: str
    skipped: dict[str, int]
    first_lines: dict[str, int]
    notes: tuple[str, ...]


def load(source: str | Path, **options: Any) -> Trace:
    """The whole trace at `source` (`path` or `format:path`); keyword options as in ReadOptions.

    Raises InputError for a file that cannot be read, with the line at fault.
    """
    return read(source, ReadOptions(**options)).trace


def read(source: str | Path, options: ReadOptions | None = None) -> Reading:
    """Like `load`, with what was skipped and assumed."""
    name, module, file, options, problems = _prepare(source, options)
    trace = assemble(module.read(file, options, problems), options, problems, module.TIME_UNIT)
    if file.cut_short:
        problems.note("the compressed file is cut short: what comes after is not known")
    return Reading(trace, name, problems.skipped, problems.examples, tuple(problems.notes))


def stream(
    source: str | Path,
    requests_per_chunk: int = DEFAULT_REQUESTS_PER_CHUNK,
    options: ReadOptions | None = None,
    *,
    skipped: dict[str, int] | None = None,
) -> Iterator[Trace]:
    """The trace in chunks of at most `requests_per_chunk` requests, for files larger than memory.

    Block ids are 64-bit labels that are equal across chunks, not dense; `unique_blocks` is -1.
    `skipped` (reason → rows) is added to when the last chunk has been taken.
    """
    _, module, file, options, problems = _prepare(source, options)
    if options.sort:
        raise InputError("a stream cannot be sorted by time", hint="sort the file first")
    rows = module.read(file, options, problems)
    yield from assemble_stream(rows, options, problems, module.TIME_UNIT, requests_per_chunk)
    if skipped is not None:
        for reason, count in problems.skipped.items():
            skipped[reason] = skipped.get(reason, 0) + count


def split_format(source: str | Path) -> tuple[str | None, str]:
    """`format:path` in two; a path alone has no format."""
    text = str(source)
    name, colon, path = text.partition(":")
    if colon and name.lower() in FORMATS:
        return name.lower(), path
    if colon and name and not Path(text).exists() and "/" not in name and "\\" not in name and len(name) > 1:
        from warmset.errors import UnknownName

        raise UnknownName("trace format", name, FORMATS, hint=f"formats: {', '.join(FORMATS)}")
    return None, text


def _prepare(
    source: str | Path, options: ReadOptions | None
) -> tuple[str, Any, Source, ReadOptions, Problems]:
    options = options or ReadOptions()
    if options.time_unit is not None and options.time_unit not in TIME_UNITS:
        raise InputError(f"unknown time unit `{options.time_unit}`", hint=f"use {', '.join(TIME_UNITS)}")
    if options.block_tokens is not None and not 0 < options.block_tokens < 2**31:
        raise InputError(
            f"`{options.block_tokens}` tokens per block make no sense", hint="servers use 16 to 1024"
        )
    name, path = split_format(source)
    file = Source(path, max_bytes=options.max_bytes, salvage=options.skip_bad, progress=options.progress)
    name = name or detect(file)
    module = importlib.import_module(FORMATS[name])
    return name, module, file, options, Problems(path, options.skip_bad)
