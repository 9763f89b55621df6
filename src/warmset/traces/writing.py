"""Writes traces: Mooncake JSON lines or the project's own format, compressed by the name, atomically."""

import gzip
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from warmset.errors import InputError, UnknownName
from warmset.traces.record import Trace
from warmset.traces.recorder_format import encode_header, encode_request

WRITTEN = ("mooncake", "warmset")


def write(
    trace: Trace,
    path: str | Path,
    form: str = "mooncake",
    *,
    block_labels: NDArray[np.uint64] | None = None,
    session_labels: Sequence[str] | None = None,
    salted: bool = False,
    overwrite: bool = False,
) -> None:
    """Write `trace` to `path` (`-` is standard output) in `form`, one of WRITTEN.

    A name ending in .gz or .zst is compressed. The file appears whole or not at all. Dense ids are written
    unless `block_labels` and `session_labels` name them otherwise; `salted` says that they were hashed with a
    secret salt. Mooncake's times are whole milliseconds;
    `warmset` keeps microseconds.
    """
    if form not in WRITTEN:
        raise UnknownName("format to write", form, WRITTEN, hint=f"write {' or '.join(WRITTEN)}")
    ids = trace.block_ids if block_labels is None else block_labels[trace.block_ids]
    sessions: list[Any] = [None] * trace.requests
    if trace.session_ids is not None:
        sessions = [
            None if s < 0 else (s if session_labels is None else session_labels[s])
            for s in trace.session_ids.tolist()
        ]
    lines = _mooncake(trace, ids, sessions) if form == "mooncake" else _warmset(trace, ids, sessions, salted)
    with _target(str(path), overwrite) as out:
        for line in lines:
            out.write(line)


def _mooncake(trace: Trace, ids: NDArray[Any], sessions: list[Any]) -> Iterator[bytes]:
    import json

    for start, end, time, inputs, outputs, session in _requests(trace, sessions):
        parts = [] if np.isnan(time) else [f'"timestamp":{round(time * 1000)}']
        parts.append(f'"input_length":{inputs}')
        if outputs >= 0:
            parts.append(f'"output_length":{outputs}')
        parts.append(f'"hash_ids":[{",".join(map(str, ids[start:end].tolist()))}]')
        parts.append(f'"block_size":{trace.block_tokens}')
        if trace.tokens_per_block is not None:
            parts.append(f'"block_tokens":[{",".join(map(str, trace.tokens_per_block[start:end].tolist()))}]')
        if session is not None:
            parts.append(f'"session_id":{json.dumps(session)}')
        yield ("{" + ",".join(parts) + "}\n").encode()


def _warmset(trace: Trace, ids: NDArray[Any], sessions: list[Any], salted: bool) -> Iterator[bytes]:
    yield encode_header(trace.block_tokens, salted=salted)
    packed = np.ascontiguousarray(ids, dtype="<u8")
    for start, end, time, inputs, outputs, session in _requests(trace, sessions):
        yield encode_request(
            None if np.isnan(time) else time,
            inputs,
            outputs if outputs >= 0 else None,
            packed[start:end].tobytes(),
            session=session,
            tokens_per_block=None
            if trace.tokens_per_block is None
            else trace.tokens_per_block[start:end].tolist(),
        )


def _requests(trace: Trace, sessions: list[Any]) -> Iterator[tuple[int, int, float, int, int, Any]]:
    offsets = trace.offsets.tolist()
    return zip(
        offsets[:-1],
        offsets[1:],
        trace.arrival_seconds.tolist(),
        trace.input_tokens.tolist(),
        trace.output_tokens.tolist(),
        sessions,
        strict=True,
    )


@contextmanager
def _target(path: str, overwrite: bool) -> Iterator[IO[bytes]]:
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    if target.exists() and not overwrite:
        raise InputError(f"`{target}` exists", hint="write over it with `--force`, or choose another name")
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise InputError(
            f"cannot write `{target}`: {error.strerror}", hint="name a file in a folder that you may write to"
        ) from None
    try:
        with os.fdopen(handle, "wb") as raw, _compressed(raw, target.name) as out:
            yield out
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _compressed(raw: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    if name.endswith(".gz"):
        # No name and no time inside: the same trace gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as out:
            yield cast("IO[bytes]", out)
    elif name.endswith(".zst"):
        import zstandard

        with zstandard.ZstdCompressor(level=6).stream_writer(raw, closefd=False) as out:
            yield out
    else:
        yield raw
