"""Compression at rest with Zstandard. KV cache compresses little: measure with `warmset tier bench --compress`."""

import threading
from collections.abc import Sequence

from warmset.tiers.codec import CodecStore
from warmset.tiers.errors import Corrupt, TooLarge
from warmset.tiers.store import Buffer, Store, flat


class Zstd:
    """One Zstandard frame that says how long its content is."""

    name = "zstd"

    def __init__(self, *, level: int = 1) -> None:
        self._level = level
        # The library's contexts may not be shared between threads.
        self._local = threading.local()

    def stored_bound(self, plain_bytes: int) -> int:
        """ZSTD_compressBound, with room to spare."""
        return plain_bytes + (plain_bytes >> 7) + 1024

    def encode(self, key: str, parts: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """See Codec.encode."""
        import zstandard

        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(level=self._level, write_content_size=True)
        # A copy: the library may not be given memory that someone else may write to meanwhile.
        return (self._local.compressor.compress(b"".join(flat(part) for part in parts)),)

    def decode(self, key: str, stored: memoryview, max_bytes: int) -> Buffer:
        """See Codec.decode."""
        import zstandard

        if not hasattr(self._local, "decompressor"):
            self._local.decompressor = zstandard.ZstdDecompressor()
        try:
            # The library takes as much memory as the frame claims to need, so the claim comes first.
            length = int(zstandard.frame_content_size(stored))
            if length > max_bytes:
                raise TooLarge(f"object `{key}` has {length} bytes, the buffer {max_bytes}")
            plain: bytes = self._local.decompressor.decompress(stored) if length >= 0 else b""
        except zstandard.ZstdError as error:
            raise Corrupt(f"object `{key}` cannot be decompressed: {error}") from None
        if len(plain) != length:
            raise Corrupt(f"object `{key}` has {len(plain)} of its {length} bytes")
        return plain


class CompressingStore(CodecStore):
    """A wrapper that compresses at rest."""

    def __init__(self, inner: Store, *, level: int = 1) -> None:
        super().__init__(inner, Zstd(level=level))
