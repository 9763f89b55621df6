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
        sessions: one hashable label per request (None where unknown), or an array where all are whole numbers;
            None without sessions.
        tokens_per_block: int32 tokens of each access, or None for the rule of `Trace`.
        block_tokens: tokens per full block where the file says so.
        time_unit: unit of `times` where the file says so.
    """

    labels: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    times: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    lines: NDArray[np.int64]
    sessions: Sequence[object] | NDArray[np.int64] | None = None
    tokens_per_block: NDArray[np.int32] | None = None
    block_tokens: int | None = None
    time_unit: str | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the blocks of each request start and end."""
        return np.concatenate(([0], np.cumsum(self.lengths))).astype(np.int64)

    def take(self, order: NDArray[np.int64]) -> "Rows":
        """The same requests in another order."""
        lengths = self.lengths[order]
        starts = self.offsets[:-1][order]
        own = np.cumsum(lengths) - lengths
        gather = np.arange(int(lengths.sum())) + np.repeat(starts - own, lengths)
        return Rows(
            self.labels[gather],
            lengths,
            self.times[order],
            self.input_tokens[order],
            self.output_tokens[order],
            self.lines[order],
            self.sessions[order]
            if isinstance(self.sessions, np.ndarray)
            else None
            if self.sessions is None
            else [self.sessions[i] for i in order],
            None if self.tokens_per_block is None else self.tokens_per_block[gather],
            self.block_tokens,
            self.time_unit,
        )

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
            self.sessions[mask]
            if isinstance(self.sessions, np.ndarray)
            else None
            if self.sessions is None
            else [s for s, m in zip(self.sessions, mask, strict=True) if m],
            None if self.tokens_per_block is None else self.tokens_per_block[accesses],
            self.block_tokens,
            self.time_unit,
        )


@dataclass(slots=True)
class RowsBuilder:
    """Collects requests one at a time, for readers that parse row by row."""

    block_tokens: int | None = None
    time_unit: str | None = None
    _labels: list[int] = field(default_factory=list)
    _tokens: list[int] = field(default_factory=list)
    _scalars: list[tuple[int, float, int, int, int, object, bool]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._scalars)

    def add(
        self,
        line: int,
        labels: Sequence[int],
        time: float,
        input_tokens: int,
        output_tokens: int,
        session: object = None,
        tokens_per_block: Sequence[int] | None = None,
    ) -> None:
        """Add one request; `labels` are unsigned 64-bit and chained."""
        if tokens_per_block is None and self.block_tokens is not None and self._tokens:
            tokens_per_block = rule_tokens(len(labels), input_tokens, self.block_tokens)
        listed = tokens_per_block is not None
        if self._scalars and listed != self._scalars[-1][-1]:
            raise BadRow("only some rows list the tokens of their blocks")
        self._labels.extend(labels)
        if tokens_per_block is not None:
            self._tokens.extend(tokens_per_block)
        self._scalars.append((len(labels), time, input_tokens, output_tokens, line, session, listed))

    def build(self) -> Rows:
        """The requests added since the last call."""
        lengths, times, inputs, outputs, lines, sessions, listed = (
            zip(*self._scalars, strict=True) if self._scalars else ((),) * 7
        )
        rows = Rows(
            np.array(self._labels, np.uint64),
            np.array(lengths, np.int64),
            np.array(times, np.float64),
            np.array(inputs, np.int64),
            np.array(outputs, np.int64),
            np.array(lines, np.int64),
            sessions if any(s is not None for s in sessions) else None,
            np.array(self._tokens, np.int32) if any(listed) else None,
            self.block_tokens,
            self.time_unit,
        )
        self._labels, self._tokens, self._scalars = [], [], []
        return rows


def rule_tokens(blocks: int, input_tokens: int, block_tokens: int) -> list[int]:
    """Tokens of each block where nothing else is said: full ones, then the remainder, then none."""
    return [min(block_tokens, max(0, input_tokens - i * block_tokens)) for i in range(blocks)]


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
