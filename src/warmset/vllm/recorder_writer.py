"""The recorder's own process: shortens and salts hashes, writes the trace, keeps the live curve.

It reads frames from standard input until that ends, which it does when the engine ends, however it ends.
"""

import gzip
import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from warmset.traces.recorder_format import encode_header, encode_request
from warmset.vllm.recorder_live import LiveCurve
from warmset.vllm.recorder_settings import beside, live_path
from warmset.vllm.recorder_tap import FRAME

_FLUSH_SECONDS, _FLUSH_BYTES = 2.0, 1 << 20
# The curve is worked out again when traffic pauses, and under load as often as a tenth of a core allows.
_QUIET_SECONDS, _CURVE_SECONDS, _CURVE_SHARE = 0.5, 10.0, 0.1
_ID_BYTES = 8


class TraceFile:
    """A trace of bounded size: compressed piece by piece, so that the file is whole at any moment."""

    def __init__(self, path: Path, header: bytes, *, max_bytes: int, files: int) -> None:
        self._path, self._header = path, header
        self._bytes_per_file, self._files = max(1, max_bytes // files), files
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._failed = False
        # What is there was salted with another salt.
        self._rotate()

    def write(self, line: bytes) -> None:
        """Add one line."""
        self._buffer.append(line)
        self._buffered += len(line)
        if self._buffered >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Bring buffered lines to the disk; when that fails, say so once and go on without."""
        if not self._buffer:
            return
        text, self._buffer, self._buffered = b"".join(self._buffer), [], 0
        try:
            size = self._path.stat().st_size if self._path.exists() else 0
            if size >= self._bytes_per_file:
                self._rotate()
                size = 0
            with self._path.open("ab") as out:
                out.write(self._compress(text if size else self._header + text))
            self._failed = False
        except OSError as error:
            if not self._failed:
                print(f"warmset recorder: {error}", file=sys.stderr, flush=True)  # noqa: T201
            self._failed = True

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
        self._dropped = 0
        self._fresh = False

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
                self._take(buffer)
            if now >= flush_due:
                self._file.flush()
                flush_due = now + _FLUSH_SECONDS
            if self._fresh and (now >= curve_due or not ready):
                self._file.flush()
                curve_due = now + max(_CURVE_SECONDS, self._publish() / _CURVE_SHARE)
        self._file.flush()
        if self._fresh:
            self._publish()

    def _take(self, buffer: bytearray) -> None:
        at = 0
        while len(buffer) - at >= FRAME.size:
            arrival, inputs, outputs, hit, width, size, dropped = FRAME.unpack_from(buffer, at)
            end = at + FRAME.size + size
            if len(buffer) < end:
                break
            ids = shorten(bytes(buffer[at + FRAME.size : end]), width, self._salt)
            if self._began is None:
                self._began = arrival
            self._file.write(
                encode_request(
                    arrival - self._began,
                    inputs,
                    outputs,
                    ids,
                    hit_device_tokens=None if hit < 0 else hit,
                )
            )
            self._curve.add(ids)
            self._dropped, self._fresh = dropped, True
            at = end
        del buffer[:at]

    def _publish(self) -> float:
        """Write the live file; returns the seconds that it took."""
        began = time.monotonic()
        self._fresh = False
        live = {
            "schema": "warmset.recorder-live/1",
            "dropped_requests": self._dropped,
            **self._curve.points(),
        }
        scratch = self._live.with_name(self._live.name + ".tmp")
        with suppress(OSError):
            scratch.write_text(json.dumps(live), encoding="utf-8")
            os.replace(scratch, self._live)
        return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
