"""A wrapper that never returns bytes other than those that were put under this key, by an engine like this one.

Every object begins with one page:

    8 bytes   magic `warmset1`
    8 bytes   payload length, little endian
   16 bytes   XXH3-128 of the payload
   32 bytes   BLAKE2b of the key
   32 bytes   BLAKE2b of the fingerprint (what must be equal for the payload to mean the same)
   16 bytes   XXH3-128 of the 96 bytes above
  then zeros  so that the payload starts on a page and direct I/O applies

XXH3 finds accidents (flipped bits, torn or swapped objects), not attackers: against those, encrypt.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from mmap import PAGESIZE
from typing import TYPE_CHECKING

from warmset.tiers.buffers import BufferPool
from warmset.tiers.errors import Corrupt, TooLarge
from warmset.tiers.store import Buffer, Capacity, Entry, Properties, Store, flat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"warmset1"
HEADER_BYTES = 4096
_FIELDS = struct.Struct("<8sQ16s32s32s")
_SUM_BYTES = 16

assert HEADER_BYTES % PAGESIZE == 0 or PAGESIZE > HEADER_BYTES


class VerifyingStore:
    """Seals what it puts and checks what it gets, before a byte reaches the caller's buffer."""

    def __init__(self, inner: Store, *, fingerprint: str = "", pool: BufferPool | None = None) -> None:
        self._inner = inner
        self._fingerprint = _digest(fingerprint)
        self._pool = pool or BufferPool()

    @property
    def properties(self) -> Properties:
        """Those of the store below."""
        return self._inner.properties

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """See Store.exists: says nothing about the content."""
        return self._inner.exists(keys)

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get; raises Corrupt with the reason, and then leaves `into` untouched."""
        target = flat(into)
        with self._pool.lend(HEADER_BYTES + target.nbytes) as staged:
            size = self._inner.get(key, staged)
            payload_bytes = self._check(key, staged[:size])
            if payload_bytes > target.nbytes:
                raise TooLarge(f"object `{key}` has {payload_bytes} bytes, the buffer {target.nbytes}")
            # numpy copies without the GIL; a memoryview assignment would stop every other thread.
            source = _array(staged[HEADER_BYTES : HEADER_BYTES + payload_bytes])
            _array(target[:payload_bytes])[:] = source
            del source
        return payload_bytes

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        self._inner.put(key, self._seal(key, parts), *parts)

    def delete(self, keys: Sequence[str]) -> None:
        """See Store.delete."""
        self._inner.delete(keys)

    def touch(self, keys: Sequence[str]) -> None:
        """See Store.touch."""
        self._inner.touch(keys)

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """See Store.entries; sizes include the header page."""
        return self._inner.entries(prefix)

    def capacity(self) -> Capacity:
        """See Store.capacity."""
        return self._inner.capacity()

    def close(self) -> None:
        """Close the store below."""
        self._inner.close()

    def _seal(self, key: str, parts: Sequence[Buffer]) -> memoryview:
        import xxhash

        payload = xxhash.xxh3_128()
        length = 0
        for part in parts:
            payload.update(flat(part))
            length += memoryview(part).nbytes
        fields = _FIELDS.pack(MAGIC, length, payload.digest(), _digest(key), self._fingerprint)
        header = _header_page()
        header[: len(fields) + _SUM_BYTES] = fields + xxhash.xxh3_128_digest(fields)
        return header

    def _check(self, key: str, sealed: memoryview) -> int:
        """The payload's length, if everything is as it was put."""
        import xxhash

        if sealed.nbytes < HEADER_BYTES:
            raise Corrupt(f"object `{key}` has {sealed.nbytes} bytes, less than its header")
        fields = bytes(sealed[: _FIELDS.size])
        if bytes(sealed[_FIELDS.size : _FIELDS.size + _SUM_BYTES]) != xxhash.xxh3_128_digest(fields):
            raise Corrupt(f"object `{key}` has a damaged header")
        magic, length, checksum, key_digest, fingerprint = _FIELDS.unpack(fields)
        if magic != MAGIC:
            raise Corrupt(f"object `{key}` has the unknown format {magic!r}")
        if key_digest != _digest(key):
            raise Corrupt(f"object `{key}` was put under another key")
        if fingerprint != self._fingerprint:
            raise Corrupt(f"object `{key}` was put by an engine with another fingerprint")
        if sealed.nbytes != HEADER_BYTES + length:
            raise Corrupt(f"object `{key}` has {sealed.nbytes - HEADER_BYTES} of its {length} bytes")
        if xxhash.xxh3_128_digest(sealed[HEADER_BYTES:]) != checksum:
            raise Corrupt(f"object `{key}` does not match its checksum")
        return int(length)


def _header_page() -> memoryview:
    from mmap import mmap

    return memoryview(mmap(-1, max(HEADER_BYTES, PAGESIZE)))[:HEADER_BYTES]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=32).digest()


def _array(view: memoryview) -> "NDArray[np.uint8]":
    import numpy as np

    return np.frombuffer(view, dtype=np.uint8)
