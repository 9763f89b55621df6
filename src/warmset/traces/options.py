"""What a caller may say about a trace file that the file does not say itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Units per second: dividing by a whole number keeps decimal times as they were written.
TIME_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a trace.

    Attributes:
        block_tokens: tokens per full block; None means that the file says so, or that it is detected.
        time_unit: one of TIME_UNITS; None means that the format fixes it, or that it is detected.
        skip_bad: leave out rows that cannot be used and count them, instead of stopping at the first.
        sort: order requests by time where the file is not.
        rechain: ids are per-block content hashes; chain them into prefix ids.
        max_bytes: bound on the size after decompression.
        tokenizer: a `tokenizer.json`, for formats that hold text; None counts one token per byte.
        columns: our column → the file's column, for CSV and Parquet.
        progress: called now and then with (bytes read of the file, its size), for formats of one request per line.
    """

    block_tokens: int | None = None
    time_unit: str | None = None
    skip_bad: bool = False
    sort: bool = False
    rechain: bool = False
    max_bytes: int | None = None
    tokenizer: str | Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[int, int], None] | None = field(default=None, compare=False, repr=False)
