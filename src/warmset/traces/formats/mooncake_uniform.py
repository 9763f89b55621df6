"""Reads Mooncake lines that are alike, as one program writes them: same names, same spacing, small whole numbers.

No line is taken apart. The numbers of a whole chunk lie between commas and brackets; what lies between the numbers is
compared with the first line's, byte by byte, and whatever differs leaves the chunk to `read_regular`.
"""

import re

import numpy as np
from numpy.typing import NDArray

from warmset.traces.formats.mooncake_fast import NEEDED, up_to_eight_digits
from warmset.traces.rows import Rows

_TAIL = b"]}\n"
_LINE = re.compile(rb'\{(?:"[a-z_]+": ?\d+, ?)+"hash_ids": ?\[[\d, ]+\]\}\n')
_COMMA, _BLANK, _ZERO, _CLOSE, _NEWLINE = (ord(c) for c in ", 0]\n")


def read_uniform(chunk: bytes, first_line: int) -> Rows | None:
    """Rows of a chunk of alike lines, their ids last; None where anything differs."""
    line = chunk[: chunk.find(b"\n") + 1]
    if not chunk.endswith(b"\n") or not _LINE.fullmatch(line):
        return None
    # What stands before each plain number, and before the list.
    gaps = re.split(rb"\d+", line[: line.index(b"[") + 1])
    names = re.findall(rb'"(\w+)"', b"".join(gaps))
    if len(set(names)) < len(names) or not NEEDED <= {name.decode() for name in names} <= NEEDED | {
        "session_id"
    }:
        return None
    each = np.frombuffer(chunk, np.uint8)
    newlines = np.flatnonzero(each == _NEWLINE)
    ends = np.flatnonzero((each == _COMMA) | (each == _CLOSE))
    last = np.searchsorted(ends, newlines)
    counts = np.diff(last, prepend=0)
    plain = len(gaps) - 1
    if len(ends) != last[-1] or counts.min() <= plain or not _ends_alike(each, ends[last - 1], newlines):
        return None
    starts = np.empty_like(ends)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    starts += each[starts] == _BLANK
    is_id = np.ones(len(ends), bool)
    for index, gap in enumerate(gaps):
        at = last - counts + index
        begin = ends[at - 1] if index else np.concatenate(([0], newlines[:-1] + 1))
        if not _stands(each, begin, gap):
            return None
        starts[at] = begin + len(gap)
        is_id[at] = index == plain
    digits = ends - starts
    if (
        digits.min() < 1
        or digits.max() > 8
        # Nothing else holds digits: as many as the numbers are long means that the numbers are nothing else.
        or np.count_nonzero((each - np.uint8(_ZERO)) < 10) != digits.sum()
        or np.any((each[starts] == _ZERO) & (digits > 1))
    ):
        return None
    numbers = up_to_eight_digits(chunk, ends, digits)
    column = {name: numbers[last - counts + index].astype(np.int64) for index, name in enumerate(names[:-1])}
    return Rows(
        numbers[is_id],
        counts - plain,
        column[b"timestamp"].astype(np.float64),
        column[b"input_length"],
        column[b"output_length"],
        np.arange(first_line, first_line + len(newlines)),
        column.get(b"session_id"),
        None,
        None,
    )


def _ends_alike(each: NDArray[np.uint8], closing: NDArray[np.int64], newlines: NDArray[np.int64]) -> bool:
    """Whether each line ends with its only closing bracket, a brace and a newline."""
    return (
        np.count_nonzero(each == _CLOSE) == len(newlines)
        and np.array_equal(closing + len(_TAIL) - 1, newlines)
        and _stands(each, closing, _TAIL)
    )


def _stands(each: NDArray[np.uint8], begin: NDArray[np.int64], text: bytes) -> bool:
    """Whether `text` stands at every `begin`."""
    if int(begin.max()) + len(text) > len(each):
        return False
    windows = np.lib.stride_tricks.sliding_window_view(each, len(text))
    return bool((windows[begin] == np.frombuffer(text, np.uint8)).all())
