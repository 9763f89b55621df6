"""Finds out what a file leaves unsaid: tokens per block and the unit of time, or says that it cannot."""

import numpy as np
from numpy.typing import NDArray

from warmset.errors import InputError
from warmset.traces.options import TIME_UNITS
from warmset.traces.rows import Problems, Rows
from warmset.units import format_counted, format_tokens

# Sizes that servers and published traces use.
_USUAL_BLOCK_TOKENS = tuple(1 << power for power in range(14))
# More arrivals than this on one log means that the unit was taken too small.
_MAX_REQUESTS_PER_SECOND = 1_000


def block_tokens_of(rows: Rows, given: int | None, problems: Problems) -> int:
    """Tokens per full block: as given, as the rows say, or the one usual size that fits every row."""
    if given is not None:
        _note_misfit(rows, given, problems)
        return given
    if rows.block_tokens is not None:
        return int(rows.block_tokens)
    if rows.tokens_per_block is not None and len(rows.tokens_per_block):
        return int(rows.tokens_per_block.max())
    fitting = [size for size in _USUAL_BLOCK_TOKENS if _fits(rows, size)]
    if len(fitting) != 1:
        found = "several sizes fit" if fitting else "no usual size fits its token counts"
        raise InputError(
            f"`{problems.path}` does not say how many tokens a block has, and {found}",
            hint="give it, such as `--block-tokens 512`",
        )
    problems.note(f"{format_tokens(fitting[0])} per block, detected from token and block counts")
    return fitting[0]


def units_per_second(times: NDArray[np.float64], problems: Problems) -> int:
    """Units of time per second: milliseconds (1,000) unless the values rule that out.

    Epoch values say it by their size. Otherwise whole numbers are milliseconds unless that would mean more
    than 1,000 requests per second, and fractions are seconds unless requests are 100 apart or more.
    """
    known = times[~np.isnan(times)]
    if not len(known):
        return 1
    largest = float(known.max())
    # Epoch values from 2001 on; anything smaller is relative to the start of the trace.
    for unit, low in (("ns", 1e18), ("us", 1e15), ("ms", 1e12), ("s", 1e9)):
        if largest >= low and float(known.min()) >= low:
            problems.note(f"time unit {unit}, detected from epoch values")
            return TIME_UNITS[unit]
    gap = (largest - float(known.min())) / max(1, len(known) - 1)
    fractions = bool(np.any(known != np.floor(known)))
    if 0 < gap < (100 if fractions else 1000 / _MAX_REQUESTS_PER_SECOND):
        problems.note("time unit s, detected from the distance between requests")
        return 1
    return 1000


def _fits(rows: Rows, size: int) -> bool:
    partial = -(-rows.input_tokens // size)
    full = rows.input_tokens // size
    return bool(np.all(rows.lengths == partial) or np.all(rows.lengths == full))


def _note_misfit(rows: Rows, size: int, problems: Problems) -> None:
    if rows.tokens_per_block is not None:
        return
    too_many = int(np.count_nonzero(rows.lengths > -(-rows.input_tokens // size)))
    too_few = int(np.count_nonzero(rows.lengths < rows.input_tokens // size))
    if found := too_many + too_few:
        problems.note(
            f"{found} of {format_counted(len(rows), 'request')} {'lists' if found == 1 else 'list'} another "
            f"number of blocks than the prompt has at {format_tokens(size)} per block"
        )
