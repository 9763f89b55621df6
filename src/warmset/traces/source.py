"""Opens trace files: plain, gzip or zstandard by content, with bounds that hostile input cannot pass."""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from warmset.errors import InputError
from warmset.units import GIB, MIB, format_bytes

# One request of a million tokens at 16 tokens per block is under 1 MiB of JSON.
MAX_LINE_BYTES = 64 * MIB
CHUNK_BYTES = 4 * MIB
# Real traces compress 3 to 30 times; far beyond that a small file is out to fill memory.
_MAX_EXPANSION = 100
_MIN_EXPANDED_BYTES = GIB

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class Source:
    """One trace file, decompressed on the fly.

    Reading more than `max_bytes` (after decompression) raises InputError. Without `max_bytes`, a compressed
    file may grow to 1 GiB or 100 times its size, whichever is more; a plain file has no bound.
    """

    def __init__(self, path: str | Path, *, max_bytes: int | None = None) -> None:
        self.path = Path(path)
        self._max_bytes = max_bytes

    def open(self) -> IO[bytes]:
        """The decompressed bytes from the start; the caller closes."""
        try:
            raw = self.path.open("rb")
        except FileNotFoundError:
            raise InputError(f"no such file: `{self.path}`", hint="check the path of the trace") from None
        except IsADirectoryError:
            raise InputError(f"`{self.path}` is a directory", hint="name one trace file in it") from None
        except OSError as error:
            raise InputError(f"cannot read `{self.path}`: {error.strerror}") from None
        magic = raw.peek(4)[:4]
        limit = self._max_bytes
        if magic.startswith((_GZIP, _ZSTD)) and limit is None:
            limit = max(_MIN_EXPANDED_BYTES, _MAX_EXPANSION * self.path.stat().st_size)
        if magic.startswith(_GZIP):
            stream = cast("IO[bytes]", gzip.GzipFile(fileobj=raw, mode="rb"))
        elif magic == _ZSTD:
            import zstandard

            # A frame may ask for any window; 128 MiB is what the format's own tools allow by default.
            decompressor = zstandard.ZstdDecompressor(max_window_size=128 * MIB)
            stream = decompressor.stream_reader(raw, closefd=True, read_across_frames=True)
        elif limit is None:
            return raw
        else:
            stream = raw
        return cast("IO[bytes]", io.BufferedReader(_Guarded(stream, raw, self.path, limit), 1 << 20))

    def head(self, size: int = 64 * 1024) -> bytes:
        """The first `size` bytes, to detect the format by."""
        with self.open() as stream:
            return stream.read(size)

    def document(self, max_bytes: int = GIB) -> bytes:
        """The whole content, for formats that are one JSON document."""
        with self.open() as stream:
            data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise InputError(
                f"`{self.path}` is one document of more than {format_bytes(max_bytes)}",
                hint="convert it to JSON lines first",
            )
        return data

    def line_chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        """Pieces of whole lines with the number of their first line, counted from 1."""
        first_line, kept = 1, b""
        with self.open() as stream:
            while piece := stream.read(chunk_bytes):
                end = piece.rfind(b"\n") + 1
                if not end:
                    kept += piece
                    if len(kept) > MAX_LINE_BYTES:
                        raise InputError(
                            f"`{self.path}` line {first_line} is longer than {format_bytes(MAX_LINE_BYTES)}",
                            hint="is this a trace with one JSON object per line? Name its format: `format:path`",
                        )
                    continue
                chunk, kept = kept + piece[:end], piece[end:]
                yield first_line, chunk
                first_line += chunk.count(b"\n")
        if kept:
            yield first_line, kept


class _Guarded(io.RawIOBase):
    """A byte stream that stops at a limit and turns decompression errors into input errors."""

    def __init__(self, stream: IO[bytes], raw: IO[bytes], path: Path, limit: int | None) -> None:
        self._stream, self._raw, self._path, self._limit = stream, raw, path, limit
        self._read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer))
        try:
            data = self._stream.read(len(view))
        except EOFError:
            raise InputError(
                f"`{self._path}` is a truncated compressed file", hint="fetch or compress it again"
            ) from None
        except Exception as error:
            if isinstance(error, OSError) or type(error).__name__ in ("ZstdError", "error"):
                raise InputError(
                    f"`{self._path}` is not valid compressed data: {error}", hint="fetch it again"
                ) from None
            raise
        view[: len(data)] = data
        self._read_bytes += len(data)
        if self._limit is not None and self._read_bytes > self._limit:
            raise InputError(
                f"`{self._path}` holds more than {format_bytes(self._limit)} when decompressed",
                hint="raise the bound with `--max-size` if the file is to be trusted",
            )
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._raw.close()
        super().close()
