"""The recorder's own process: shortens and salts hashes, writes the trace, keeps the live curve.

It reads frames from standard input until that ends, which it does when the engine ends, however it ends.
"""

import errno
import gzip
import heapq
import json
import math
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from warmset.traces.recorder_format import encode_header, encode_request
from warmset.vllm.recorder_live import LiveCurve
from warmset.vllm.recorder_settings import beside, live_path
from warmset.vllm.recorder_tap import FRAME

_FLUSH_SECONDS, _FLUSH_BYTES = 2.0, 1 << 20
# The curve is worked out again when traffic pauses, and under load as often as a tenth of a core allows.
_QUIET_SECONDS, _CURVE_SECONDS, _CURVE_SHARE = 0.5, 10.0, 0.1
_ID_BYTES = 8
# Requests are written in order of arrival, so one that runs on holds back those that arrived after it: this
# long, and this many bytes of ids, at most.
_HOLD_SECONDS, _HOLD_BYTES = 120.0, 16 << 20


class TraceFile:
    """A trace of bounded size: compressed piece by piece, so that the file is whole at any moment."""

    def __init__(self, path: Path, header: bytes, *, max_bytes: int, files: int) -> None:
        self._path, self._header = path, header
        self._bytes_per_file, self._files = max(1, max_bytes // files), files
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._failed = False
        self.lost_lines = 0
        # What is there was salted with another salt.
        self._rotate()

    def write(self, line: bytes) -> None:
        """Add one line."""
        self._buffer.append(line)
        self._buffered += len(line)
        if self._buffered >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Bring buffered lines to the disk; when that fails, say so once, count them and go on without."""
        if not self._buffer:
            return
        lines, self._buffer, self._buffered = self._buffer, [], 0
        try:
            size = self._path.stat().st_size if self._path.exists() else 0
            if size >= self._bytes_per_file:
                self._rotate()
                size = 0
            self._append(b"".join(lines if size else [self._header, *lines]), size)
            self._failed = False
        except OSError as error:
            self.lost_lines += len(lines)
            if not self._failed:
                print(f"warmset recorder: {error}", file=sys.stderr, flush=True)  # noqa: T201
            self._failed = True

    def _append(self, text: bytes, size: int) -> None:
        """Write all of a piece or nothing: half of one would make what follows unreadable."""
        piece = self._compress(text)
        with self._path.open("ab", buffering=0) as out:
            try:
                if out.write(piece) < len(piece):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            except OSError:
                out.truncate(size)
                raise

    def _compress(self, data: bytes) -> bytes:
        if self._path.suffix == ".gz":
            return gzip.compress(data, compresslevel=3)
        if self._path.suffix == ".zst":
            import zstandard

            return zstandard.ZstdCompressor(level=3).compress(data)
        return data

    def _rotate(self) -> None:
        with suppress(OSError):
            if self._files == 1:
                self._path.unlink()
                return
            for number in range(self._files - 1, 0, -1):
                newer = self._path if number == 1 else beside(self._path, str(number - 1))
                if newer.exists():
                    os.replace(newer, beside(self._path, str(number)))


def shorten(hashes: bytes, width: int, salt: bytes) -> bytes:
    """Keyed 64-bit ids of joined hashes of `width` bytes: without the salt, which is never written, nobody can
    recover a prompt from them or find it in another recording."""
    return b"".join(
        blake2b(hashes[at : at + width], digest_size=_ID_BYTES, key=salt).digest()
        for at in range(0, len(hashes), width)
    )


def main() -> int:
    """Record until standard input ends."""
    # Ctrl-C reaches the whole group; the end of the input is what ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(10)
    # Unbuffered: what a buffer holds, `select` does not see.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as source:
        first = source.readline()
        if first:
            _Recording(json.loads(first)).run(source.fileno())
    return 0


class _Finished(NamedTuple):
    input_tokens: int
    output_tokens: int
    device_hit_tokens: int | None
    ids: bytes


class _Recording:
    def __init__(self, task: Mapping[str, Any]) -> None:
        path = Path(task["path"])
        self._block_tokens = int(task["block_tokens"])
        header = encode_header(
            self._block_tokens, salted=True, model=task["model"], device_blocks=task["device_blocks"]
        )
        self._file = TraceFile(path, header, max_bytes=task["max_bytes"], files=task["files"])
        self._live = live_path(path)
        self._curve = LiveCurve(
            self._block_tokens,
            int(task["device_blocks"]),
            tuple(task["device_pools"]),
            task["curve_accesses"],
        )
        self._salt = os.urandom(32)
        self._began: float | None = None
        self._written_until = 0.0
        # (arrival, order of finishing, when it came, the request)
        self._held: list[tuple[float, int, float, _Finished]] = []
        self._held_bytes = 0
        self._taken = 0
        self._dropped = 0
        self._fresh = True

    def run(self, source: int) -> None:
        """Take frames from a file descriptor until it ends."""
        flush_due = curve_due = 0.0
        buffer = bytearray()
        while True:
            ready, _, _ = select.select([source], [], [], _QUIET_SECONDS)
            now = time.monotonic()
            if ready:
                data = os.read(source, 1 << 20)
                if not data:
                    break
                buffer += data
                self._take(buffer, now)
            self._release(-math.inf, now)
            if now >= flush_due:
                self._file.flush()
                flush_due = now + _FLUSH_SECONDS
            if self._fresh and (now >= curve_due or not ready):
                self._file.flush()
                curve_due = now + max(_CURVE_SECONDS, self._publish() / _CURVE_SHARE)
        self._release(math.inf, 0.0)
        self._file.flush()
        if self._fresh:
            self._publish()

    def _take(self, buffer: bytearray, now: float) -> None:
        at = 0
        while len(buffer) - at >= FRAME.size:
            arrival, oldest, inputs, outputs, hit, width, size, self._dropped = FRAME.unpack_from(buffer, at)
            end = at + FRAME.size + size
            if len(buffer) < end:
                break
            ids = shorten(bytes(buffer[at + FRAME.size : end]), width, self._salt)
            request = _Finished(inputs, outputs, None if hit < 0 else hit, ids)
            heapq.heappush(self._held, (arrival, self._taken, now, request))
            self._held_bytes += len(ids)
            self._taken += 1
            self._release(oldest, now)
            at = end
        del buffer[:at]

    def _release(self, before: float, now: float) -> None:
        """Write the requests that arrived before that, and those that were held too long."""
        while self._held:
            arrival, _, came, request = self._held[0]
            if arrival >= before and self._held_bytes <= _HOLD_BYTES and now - came < _HOLD_SECONDS:
                return
            heapq.heappop(self._held)
            self._held_bytes -= len(request.ids)
            if self._began is None:
                self._began = arrival
            self._written_until = max(self._written_until, arrival - self._began)
            self._file.write(
                encode_request(
                    self._written_until,
                    request.input_tokens,
                    request.output_tokens,
                    request.ids,
                    hit_device_tokens=request.device_hit_tokens,
                )
            )
            self._curve.add(request.ids)
            self._fresh = True

    def _publish(self) -> float:
        """Write the live file; returns the seconds that it took."""
        began = time.monotonic()
        self._fresh = False
        live = {
            "schema": "warmset.recorder-live/1",
            "dropped_requests": self._dropped + self._file.lost_lines,
            **self._curve.points(),
        }
        scratch = self._live.with_name(self._live.name + ".tmp")
        try:
            scratch.write_text(json.dumps(live), encoding="utf-8")
            os.replace(scratch, self._live)
        except OSError:
            # An old curve must not pass for the current one.
            for path in (scratch, self._live):
                with suppress(OSError):
                    path.unlink()
        return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
