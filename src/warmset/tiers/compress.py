"""A wrapper that compresses at rest with Zstandard. KV cache compresses little: measure with `warmset tier bench`."""

import struct
import threading

from warmset.tiers.buffers import BufferPool
from warmset.tiers.errors import Corrupt, TooLarge
from warmset.tiers.store import Buffer, Store, flat
from warmset.tiers.wrapper import Wrapper

_HEAD = struct.Struct("<Q")


class CompressingStore(Wrapper):
    """Stores the plain length (8 bytes) and one Zstandard frame; sizes in `entries` are compressed ones."""

    def __init__(self, inner: Store, *, level: int = 1) -> None:
        super().__init__(inner)
        self._level = level
        self._pool = BufferPool()
        # The library's contexts may not be shared between threads.
        self._local = threading.local()

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get."""
        import zstandard

        target = flat(into)
        with self._pool.lend(_HEAD.size + _bound(target.nbytes)) as staged:
            size = self._inner.get(key, staged)
            if size < _HEAD.size:
                raise Corrupt(f"object `{key}` is shorter than its header")
            (length,) = _HEAD.unpack(staged[: _HEAD.size])
            if length > target.nbytes:
                raise TooLarge(f"object `{key}` has {length} bytes, the buffer {target.nbytes}")
            if not hasattr(self._local, "decompressor"):
                self._local.decompressor = zstandard.ZstdDecompressor()
            try:
                plain = self._local.decompressor.decompress(staged[_HEAD.size : size], max_output_size=length)
            except zstandard.ZstdError as error:
                raise Corrupt(f"object `{key}` cannot be decompressed: {error}") from None
        if len(plain) != length:
            raise Corrupt(f"object `{key}` has {len(plain)} of its {length} bytes")
        target[:length] = plain
        return int(length)

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        import zstandard

        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(level=self._level, write_content_size=True)
        plain = b"".join(flat(part) for part in parts)
        self._inner.put(key, _HEAD.pack(len(plain)), self._local.compressor.compress(plain))


def _bound(plain_bytes: int) -> int:
    """The longest frame that Zstandard makes of `plain_bytes` (ZSTD_compressBound, with room to spare)."""
    return plain_bytes + (plain_bytes >> 7) + 1024
