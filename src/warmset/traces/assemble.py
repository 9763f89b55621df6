"""Turns rows as read into a Trace: checks them, makes ids dense and times relative."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from warmset.errors import InputError
from warmset.traces.options import TIME_UNITS, ReadOptions
from warmset.traces.record import Trace
from warmset.traces.rows import Problems, Rows
from warmset.traces.sense import block_tokens_of, units_per_second

DEFAULT_REQUESTS_PER_CHUNK = 100_000

EMPTY_PROMPT = "the prompt is empty"
TIME_BACKWARDS = "time runs backwards"
BROKEN_CHAIN = "a block id follows a different prefix than before"


def assemble(rows: Iterable[Rows], options: ReadOptions, problems: Problems, time_unit: str | None) -> Trace:
    """One Trace of everything that `rows` yields. `time_unit` is the format's own, None where it has none."""
    checked = _Checked(rows, options, problems, time_unit)
    parts = [_narrowed(part) for part in checked]
    if not parts:
        raise nothing_left(problems)
    whole = _join(parts)
    del parts
    if options.sort and np.any(np.diff(whole.times) < 0):
        whole = _sorted(whole)
    dense, first = densify(whole.labels)
    bad = broken_chains(dense, whole.offsets, first)
    if bad.any():
        good = _without_contradictions(whole, dense, problems)
        whole = whole.keep(good)
        if not len(whole):
            raise nothing_left(problems)
        dense, first = densify(whole.labels)
    return Trace(
        block_ids=dense,
        offsets=whole.offsets,
        arrival_seconds=_relative(whole.times, checked.units_per_second, None),
        input_tokens=whole.input_tokens,
        output_tokens=whole.output_tokens,
        session_ids=_dense_sessions(whole.sessions, {}),
        block_tokens=checked.block_tokens,
        tokens_per_block=whole.tokens_per_block,
        unique_blocks=len(first),
        source=problems.path,
    )


def assemble_stream(
    rows: Iterable[Rows],
    options: ReadOptions,
    problems: Problems,
    time_unit: str | None,
    requests_per_chunk: int = DEFAULT_REQUESTS_PER_CHUNK,
) -> Iterator[Trace]:
    """Traces of at most `requests_per_chunk` requests each, in bounded memory.

    Ids are the file's own 64-bit labels (as int64), equal across chunks; `unique_blocks` is -1, unknown.
    Broken chains are seen within a chunk only. Rows cannot be sorted.
    """
    checked = _Checked(rows, options, problems, time_unit)
    sessions: dict[object, int] = {}
    for part in _resized(checked, requests_per_chunk):
        dense, first = _numbered(part.labels)
        bad = broken_chains(dense, part.offsets, first)
        whole = part.keep(_without_contradictions(part, dense, problems)) if bad.any() else part
        yield Trace(
            block_ids=whole.labels.view(np.int64),
            offsets=whole.offsets,
            arrival_seconds=_relative(whole.times, checked.units_per_second, checked.first_time),
            input_tokens=whole.input_tokens,
            output_tokens=whole.output_tokens,
            session_ids=_dense_sessions(whole.sessions, sessions),
            block_tokens=checked.block_tokens,
            tokens_per_block=whole.tokens_per_block,
            unique_blocks=-1,
            source=problems.path,
        )


class _Checked:
    """Iterates over rows that pass the checks of one row; learns block size and time unit from the first."""

    def __init__(
        self, rows: Iterable[Rows], options: ReadOptions, problems: Problems, time_unit: str | None
    ) -> None:
        self._rows, self._options, self._problems, self._time_unit = rows, options, problems, time_unit
        self.block_tokens = 0
        self.units_per_second = 1
        self.first_time: float | None = None

    def __iter__(self) -> Iterator[Rows]:
        last_time = -np.inf
        for part in self._rows:
            if not len(part):
                continue
            good = self._not_empty(part)
            if not self._options.sort:
                good &= self._forward(part, last_time, good)
            rows = part if good.all() else part.keep(good)
            if not len(rows):
                continue
            if not self.block_tokens:
                self._learn(rows)
            elif rows.block_tokens not in (None, self.block_tokens):
                self._conflict(rows)
            known = rows.times[~np.isnan(rows.times)]
            if len(known):
                last_time = max(last_time, float(known.max()))
                if self.first_time is None:
                    self.first_time = float(known[0])
            yield rows

    def _learn(self, rows: Rows) -> None:
        given = self._options.block_tokens
        if given is not None and rows.block_tokens not in (None, given):
            self.block_tokens = given
            self._conflict(rows)
        self.block_tokens = block_tokens_of(rows, given, self._problems)
        unit = rows.time_unit or self._options.time_unit or self._time_unit
        self.units_per_second = TIME_UNITS[unit] if unit else units_per_second(rows.times, self._problems)

    def _conflict(self, rows: Rows) -> None:
        raise InputError(
            f"`{self._problems.path}` line {rows.lines[0]}: blocks of `{rows.block_tokens}` tokens"
            f" where `{self.block_tokens}` were expected",
            hint=f"use `--block-tokens {rows.block_tokens}`, or split the file by block size",
        )

    def _not_empty(self, part: Rows) -> NDArray[np.bool_]:
        good = part.input_tokens > 0
        for line in part.lines[~good]:
            self._problems.bad(int(line), EMPTY_PROMPT)
        return good

    def _forward(self, part: Rows, last_time: float, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        times = np.where(good & ~np.isnan(part.times), part.times, -np.inf)
        # A row that runs backwards does not set the clock back: later rows compare with the latest time.
        latest = np.maximum.accumulate(np.concatenate(([last_time], times)))[:-1]
        forward = (times >= latest) | np.isneginf(times)
        for line in part.lines[~forward]:
            self._problems.bad(
                int(line),
                TIME_BACKWARDS,
                hint="order the requests with `--sort`, or leave such lines out with `--skip-bad`",
            )
        return forward


Ids = NDArray[np.int32] | NDArray[np.int64]


def nothing_left(problems: Problems) -> InputError:
    """What to say of a file without requests: what was left out, if anything was."""
    left_out = "; ".join(
        f"{count:,} left out: {reason} (first at line {problems.examples[reason]})"
        for reason, count in problems.skipped.items()
    )
    if left_out:
        return InputError(
            f"`{problems.path}` holds no usable requests: {left_out}", hint="repair these lines"
        )
    return InputError(f"`{problems.path}` holds no requests", hint="name a trace with at least one request")


def _narrowed(rows: Rows) -> Rows:
    """The same rows with labels in 32 bits where they fit: half of the memory that waits for the last row."""
    if not len(rows.labels) or int(rows.labels.max()) >= 2**32:
        return rows
    return replace(rows, labels=rows.labels.astype(np.uint32))


# Accesses looked at together: larger pieces would ask the kernel for fresh pages again and again.
_PIECE = 1 << 18


def densify(labels: NDArray[np.uint64]) -> tuple[Ids, NDArray[np.int64]]:
    """Ids 0 … n-1 in order of first appearance, and the n accesses where each appears first."""
    if not len(labels):
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    first = _already_dense(labels)
    if first is not None:
        if labels.dtype == np.uint32 and len(first) <= 2**31:
            return labels.view(np.int32), first
        return labels.astype(np.int32) if len(first) <= 2**31 else labels.astype(np.int64), first
    import pyarrow as pa

    encoded = pa.array(labels).dictionary_encode()
    unique = len(encoded.dictionary)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    ids: Ids = codes.astype(np.int32, copy=False) if unique < 2**31 else codes.astype(np.int64)
    first = np.empty(unique, np.int64)
    # Assigning backwards leaves each id with its first access.
    first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return ids, first


def _numbered(labels: NDArray[np.uint64]) -> tuple[Ids, NDArray[np.int64]]:
    """Any small numbers for the labels, and the first access of each: as `densify`, but in no order."""
    if not len(labels):
        return densify(labels)
    low = int(labels.min())
    span = int(labels.max()) - low
    if span >= 4 * len(labels):
        return densify(labels)
    ids = (labels - np.uint64(low)).astype(np.int64)
    first = np.zeros(span + 1, np.int64)
    first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)
    return ids, first


def _already_dense(labels: NDArray[np.uint64]) -> NDArray[np.int64] | None:
    """The first access of each label, if labels are numbered by first appearance, as most published traces are."""
    if labels[0] != 0 or int(labels.max()) >= len(labels):
        return None
    firsts, highest = [np.zeros(1, np.int64)], 0
    for start in range(0, len(labels), _PIECE):
        latest = np.maximum.accumulate(labels[start : start + _PIECE])
        np.maximum(latest, highest, out=latest)
        steps = np.flatnonzero(latest[1:] != latest[:-1]) + (start + 1)
        if latest[0] != highest:
            firsts.append(np.array([start]))
        # Then each step is by one.
        if int(latest[-1]) - highest != len(steps) + int(latest[0] != highest):
            return None
        highest = int(latest[-1])
        firsts.append(steps)
    return np.concatenate(firsts)


def broken_chains(ids: Ids, offsets: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which accesses follow another block than at the first access of their id."""
    wrong = np.zeros(len(ids), bool)
    starts = offsets[:-1]
    starts = starts[starts < len(ids)]
    is_root = np.zeros(len(ids), bool)
    is_root[starts] = True
    parent_of = ids[first - 1]
    parent_of[is_root[first]] = -1
    for begin in range(0, len(ids), _PIECE):
        end = min(len(ids), begin + _PIECE)
        parents = np.empty(end - begin, ids.dtype)
        parents[1:] = ids[begin : end - 1]
        parents[0] = ids[begin - 1]
        parents[starts[slice(*np.searchsorted(starts, (begin, end)))] - begin] = -1
        np.not_equal(parent_of[ids[begin:end]], parents, out=wrong[begin:end])
    return wrong


def _without_contradictions(rows: Rows, ids: Ids, problems: Problems) -> NDArray[np.bool_]:
    """Which requests stay when those that contradict an earlier one are left out, in order."""
    offsets = rows.offsets
    hint = (
        "ids must be equal only where whole prefixes are equal; if they are hashes of single blocks,"
        " chain them with `--rechain`; or leave such lines out with `--skip-bad`"
    )
    good = np.ones(len(rows), bool)
    parent_of: dict[int, int] = {}
    flat = ids.tolist()
    for request in range(len(rows)):
        start, end = int(offsets[request]), int(offsets[request + 1])
        own: dict[int, int] = {}
        parent = -1
        for position in range(start, end):
            block = flat[position]
            if parent_of.get(block, own.setdefault(block, parent)) != parent:
                good[request] = False
                problems.bad(int(rows.lines[request]), BROKEN_CHAIN, f"block {position - start}", hint=hint)
                break
            parent = block
        else:
            parent_of.update(own)
    return good


def _join(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    sessions: Sequence[object] | NDArray[np.int64] | None = None
    numbered = [p.sessions for p in parts if isinstance(p.sessions, np.ndarray)]
    if len(numbered) == len(parts):
        sessions = np.concatenate(numbered)
    elif any(p.sessions is not None for p in parts):
        labels = (p.sessions.tolist() if isinstance(p.sessions, np.ndarray) else p.sessions for p in parts)
        sessions = list(chain.from_iterable(s or [None] * len(p) for s, p in zip(labels, parts, strict=True)))
    return Rows(
        np.concatenate([p.labels for p in parts]),
        np.concatenate([p.lengths for p in parts]),
        np.concatenate([p.times for p in parts]),
        np.concatenate([p.input_tokens for p in parts]),
        np.concatenate([p.output_tokens for p in parts]),
        np.concatenate([p.lines for p in parts]),
        sessions,
        _join_block_tokens(parts),
        parts[0].block_tokens,
    )


def _join_block_tokens(parts: list[Rows]) -> NDArray[np.int32] | None:
    if all(p.tokens_per_block is None for p in parts):
        return None
    if any(p.tokens_per_block is None for p in parts):
        raise InputError(
            "only some rows list `block_tokens`, and the rest of the file does not",
            hint="list them in every row, or in none",
        )
    return np.concatenate([p.tokens_per_block for p in parts if p.tokens_per_block is not None])


def _resized(parts: Iterable[Rows], requests: int) -> Iterator[Rows]:
    for part in parts:
        for start in range(0, len(part), requests):
            mask = np.zeros(len(part), bool)
            mask[start : start + requests] = True
            yield part if len(part) <= requests else part.keep(mask)


def _sorted(rows: Rows) -> Rows:
    # Requests of unknown time stay behind the one before them.
    times = rows.times.copy()
    unknown = np.isnan(times)
    if unknown.any():
        index = np.maximum.accumulate(np.where(unknown, 0, np.arange(len(times))))
        times = np.where(np.isnan(times[index]), -np.inf, times[index])
    return rows.take(np.argsort(times, kind="stable"))


def _relative(times: NDArray[np.float64], per_second: int, first: float | None) -> NDArray[np.float64]:
    known = times[~np.isnan(times)]
    if not len(known):
        return times
    return (times - (float(known[0]) if first is None else first)) / per_second


def _dense_sessions(labels: object, numbers: dict[object, int]) -> NDArray[np.int64] | None:
    if labels is None:
        return None
    if isinstance(labels, np.ndarray):
        import pyarrow as pa

        encoded = pa.array(labels).dictionary_encode()
        dense = _dense_sessions(encoded.dictionary.to_pylist(), numbers)
        assert dense is not None
        codes: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
        return dense[codes]
    assert isinstance(labels, (list, tuple))
    return np.array(
        [-1 if label is None else numbers.setdefault(label, len(numbers)) for label in labels], np.int64
    )
