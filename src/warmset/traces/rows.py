"""What every reader yields: a run of requests as read, before ids become dense and times relative."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from warmset.errors import InputError


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive requests of one file.

    Attributes:
        labels: uint64 prefix-chained block labels, one per access, equal across all Rows of a file.
        lengths: int64 blocks of each request.
        times: float64 arrival, in the unit of the file; NaN where unknown.
        input_tokens: int64 prompt tokens.
        output_tokens: int64 generated tokens; -1 where unknown.
        lines: int64 line (or record) number of each request, counted from 1.
        sessions: one hashable label per request (None where unknown), or None without sessions.
        tokens_per_block: int32 tokens of each access, or None for the rule of `Trace`.
        block_tokens: tokens per full block where the file says so.
    """

    labels: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    times: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    lines: NDArray[np.int64]
    sessions: Sequence[object] | None = None
    tokens_per_block: NDArray[np.int32] | None = None
    block_tokens: int | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the blocks of each request start and end."""
        return np.concatenate(([0], np.cumsum(self.lengths))).astype(np.int64)

    def keep(self, mask: NDArray[np.bool_]) -> "Rows":
        """Only the requests where `mask` is true."""
        accesses = np.repeat(mask, self.lengths)
        return Rows(
            self.labels[accesses],
            self.lengths[mask],
            self.times[mask],
            self.input_tokens[mask],
            self.output_tokens[mask],
            self.lines[mask],
            None if self.sessions is None else [s for s, m in zip(self.sessions, mask, strict=True) if m],
            None if self.tokens_per_block is None else self.tokens_per_block[accesses],
            self.block_tokens,
        )


class BadRow(Exception):  # control flow between a parser and its loop; never leaves the room
    """One row that cannot be read; the text says why."""


@dataclass(slots=True)
class Problems:
    """Counts rows that are left out, or stops at the first one.

    Attributes:
        path: the file, for messages.
        skip_bad: leave bad rows out and count them, instead of raising InputError.
        skipped: reason → how many rows.
        examples: reason → line of the first one.
        notes: what a reader assumed on its own.
    """

    path: str
    skip_bad: bool = False
    skipped: dict[str, int] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def bad(self, line: int, reason: str, detail: str = "", *, hint: str | None = None) -> None:
        """Count the row at `line`, or raise InputError that names it."""
        if not self.skip_bad:
            raise InputError(
                f"`{self.path}` line {line}: {reason}" + (f": {detail}" if detail else ""),
                hint=hint or "repair the line, or leave such lines out with `--skip-bad`",
            )
        self.skipped[reason] = self.skipped.get(reason, 0) + 1
        self.examples.setdefault(reason, line)

    def note(self, text: str) -> None:
        """Say once what was assumed."""
        if text not in self.notes:
            self.notes.append(text)
