"""Opens trace files: plain, gzip or zstandard by content, with bounds that hostile input cannot pass."""

import gzip
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from warmset.errors import InputError
from warmset.opening import is_pipe, open_input
from warmset.units import GIB, MIB, format_bytes

# One request of a million tokens at 16 tokens per block is under 1 MiB of JSON.
MAX_LINE_BYTES = 64 * MIB
CHUNK_BYTES = MIB
# Real traces compress 3 to 30 times; far beyond that a small file is out to fill memory.
_MAX_EXPANSION = 100
_MIN_EXPANDED_BYTES = GIB
# What a pipe may bring, where the caller sets no bound: it must fit a disk beside other things.
_MAX_PIPED_BYTES = 16 * GIB

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Source:
    """One trace file, decompressed on the fly.

    Reading more than `max_bytes` (after decompression) raises InputError. Without `max_bytes`, a compressed
    file may grow to 1 GiB or 100 times its size, whichever is more; a plain file has no bound. A pipe is kept in a
    temporary file, since readers come back to the beginning.

    Attributes:
        path: the file.
        cut_short: a compressed file ended early, and `salvage` let that pass: a recorder that was killed leaves
            such files behind.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_bytes: int | None = None,
        salvage: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.cut_short = False
        self.salvage = salvage
        self._max_bytes = max_bytes
        self._progress = progress
        self._raw: IO[bytes] | None = None
        self._kept: tempfile._TemporaryFileWrapper[bytes] | None = None

    def open(self) -> IO[bytes]:
        """The decompressed bytes from the start; the caller closes."""
        try:
            raw = self._file()
        except FileNotFoundError:
            raise InputError(f"no such file: `{self.path}`", hint="check the path of the trace") from None
        except IsADirectoryError:
            raise InputError(f"`{self.path}` is a directory", hint="name one trace file in it") from None
        except OSError as error:
            raise InputError(
                f"cannot read `{self.path}`: {error.strerror}", hint="check the path and its permissions"
            ) from None
        self._raw = raw
        magic = raw.peek(4)[:4]
        limit = self._max_bytes
        if magic.startswith((_GZIP, _ZSTD)) and limit is None:
            limit = max(_MIN_EXPANDED_BYTES, _MAX_EXPANSION * os.fstat(raw.fileno()).st_size)
        if magic.startswith(_GZIP):
            stream: Any = gzip.GzipFile(fileobj=raw, mode="rb")
        elif magic == _ZSTD:
            stream = _Zstd(raw)
        elif limit is None:
            return raw
        else:
            stream = raw
        return cast("IO[bytes]", io.BufferedReader(_Guarded(self, stream, raw, limit), 1 << 20))

    def _file(self) -> io.BufferedReader:
        """The bytes as they are stored, from the start."""
        if self._kept is None and is_pipe(self.path):
            self._kept = self._keep()
        return open_input(self.path if self._kept is None else self._kept.name)

    def _keep(self) -> "tempfile._TemporaryFileWrapper[bytes]":
        """What the pipe brings, in a file that goes with this object."""
        with open_input(self.path) as pipe:
            pieces = self._pieces(pipe)
            try:
                kept = tempfile.NamedTemporaryFile(prefix="warmset-trace-")  # noqa: SIM115  it outlives this call
                kept.writelines(pieces)
                kept.flush()
            except OSError as error:
                raise InputError(
                    f"cannot keep what `{self.path}` brings: {error.strerror}",
                    hint="save the trace to a file and give that, or set TMPDIR to a disk with room",
                ) from None
        return kept

    def _pieces(self, pipe: io.BufferedReader) -> Iterator[bytes]:
        bound, size = self._max_bytes or _MAX_PIPED_BYTES, 0
        while piece := pipe.read1(CHUNK_BYTES):
            size += len(piece)
            if size > bound:
                raise InputError(
                    f"`{self.path}` brings more than {format_bytes(bound)}",
                    hint="save the trace to a file and give that, or raise the bound with `--max-size`",
                )
            yield piece

    def sibling(self, path: Path) -> "Source":
        """Another file under the same bounds."""
        return Source(path, max_bytes=self._max_bytes, salvage=self.salvage)

    def head(self, size: int = 64 * 1024) -> bytes:
        """The first `size` bytes, to detect the format by."""
        with self.open() as stream:
            return stream.read(size)

    def document(self) -> bytes:
        """The whole content, for formats that are one JSON document: at most `max_bytes`, or 256 MiB."""
        # Parsed JSON takes some 20 times its text.
        max_bytes = self._max_bytes or 256 * MIB
        with self.open() as stream:
            data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise InputError(
                f"`{self.path}` is one document of more than {format_bytes(max_bytes)}",
                hint="write one JSON object per line, or raise the bound with `--max-size`",
            )
        return data

    def line_chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        """Pieces of whole lines with the number of their first line, counted from 1."""
        first_line, kept = 1, b""
        _keep_freed_memory()
        with self.open() as stream:
            while piece := stream.read(chunk_bytes):
                self._report()
                end = piece.rfind(b"\n") + 1
                if not end:
                    kept += piece
                    if len(kept) > MAX_LINE_BYTES:
                        raise InputError(
                            f"`{self.path}` line {first_line} is longer than {format_bytes(MAX_LINE_BYTES)}",
                            hint="is this a trace with one JSON object per line? Name its format: `format:path`",
                        )
                    continue
                if kept or end < len(piece):
                    kept, piece = piece[end:], b"".join((kept, memoryview(piece)[:end]))
                yield first_line, piece
                first_line += count_bytes(piece, b"\n")
        if kept:
            yield first_line, kept

    def _report(self) -> None:
        """Progress through the file as it is stored, compressed or not."""
        if self._progress is not None and self._raw is not None:
            self._progress(self._raw.tell(), os.fstat(self._raw.fileno()).st_size)


def count_bytes(text: bytes, byte: bytes) -> int:
    """How often `byte` occurs: ten times as fast as `text.count` where it is frequent."""
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == byte[0]))


def _keep_freed_memory() -> None:
    """Lets the C library reuse a chunk's memory for the next: fresh pages cost a fifth of the reading time.

    glibc returns large blocks to the kernel until one of this size has been freed; other libraries ignore it.
    """
    import numpy as np

    np.empty(24 * MIB, np.uint8)  # never touched, so it costs no memory


class _Zstd:
    """Reads zstandard frames, and knows where the last one is not complete."""

    # A few compressed bytes can stand for 128 KiB: small bites keep hostile input from filling memory.
    _BITE = 2048

    def __init__(self, raw: IO[bytes]) -> None:
        import zstandard

        # A frame may ask for any window; 128 MiB is what the format's own tools allow by default.
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=128 * MIB)
        self._raw, self._ready, self._at = raw, b"", 0
        self._frame: Any = None

    def read1(self, size: int) -> bytes:
        while self._at == len(self._ready):
            data = self._raw.read(self._BITE)
            if not data:
                if self._frame is not None:
                    raise EOFError
                return b""
            parts = []
            while data:
                frame = self._frame or self._decompressor.decompressobj()
                parts.append(frame.decompress(data))
                self._frame, data = (None, frame.unused_data) if frame.eof else (frame, b"")
            self._ready, self._at = b"".join(parts), 0
        data = self._ready[self._at : self._at + size]
        self._at += len(data)
        return data

    def close(self) -> None:
        self._raw.close()


class _Guarded(io.RawIOBase):
    """A byte stream that stops at a limit and turns decompression errors into input errors."""

    def __init__(self, source: Source, stream: Any, raw: IO[bytes], limit: int | None) -> None:
        self._source, self._stream, self._raw, self._limit = source, stream, raw, limit
        self._read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer))
        path = self._source.path
        try:
            # One step at a time: a larger read that meets the end of a cut file would lose what it had.
            data = self._stream.read1(len(view))
        except EOFError:
            if self._source.salvage:
                self._source.cut_short = True
                return 0
            raise InputError(
                f"`{path}` is a truncated compressed file",
                hint="fetch it again, or read what is there with `--skip-bad`",
            ) from None
        except Exception as error:
            if isinstance(error, OSError) or type(error).__name__ in ("ZstdError", "error"):
                raise InputError(
                    f"`{path}` is not valid compressed data: {error}", hint="fetch it again"
                ) from None
            raise
        view[: len(data)] = data
        self._read_bytes += len(data)
        if self._limit is not None and self._read_bytes > self._limit:
            raise InputError(
                f"`{path}` holds more than {format_bytes(self._limit)} when decompressed",
                hint="raise the bound with `--max-size` if the file is to be trusted",
            )
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._raw.close()
        super().close()
