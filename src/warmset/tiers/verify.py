"""A wrapper that never returns bytes other than those put under this key by an engine like this one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from mmap import mmap

from warmset.tiers.buffers import BufferPool, copy_bytes
from warmset.tiers.encoding import Encoding
from warmset.tiers.errors import Corrupt, TooLarge
from warmset.tiers.seal import HEADER_BYTES, digest, load_xxhash, make_header, read_seal
from warmset.tiers.store import Buffer, Store, flat
from warmset.tiers.wrapper import Wrapper, fetcher


class VerifyingStore(Wrapper):
    """Seals what it puts and checks what it gets, before a byte reaches the caller's buffer.

    `encoding` says how payloads are written; what was compressed is read without it, and with a key nothing is read
    that is not encrypted with it. Sizes in `entries` are stored ones, with the header page of `warmset.tiers.seal`.
    """

    def __init__(
        self,
        inner: Store,
        *,
        fingerprint: str = "",
        encoding: Encoding | None = None,
        pool: BufferPool | None = None,
    ) -> None:
        super().__init__(inner)
        # Were it found missing at the first block, every store would fail in silence.
        load_xxhash()
        self._fingerprint_digest = digest(fingerprint)
        self._encoding = encoding or Encoding()
        self._pool = pool or BufferPool()
        self._fetch = fetcher(inner)
        self._thread = threading.local()

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get; raises Corrupt with the reason, and then leaves `into` untouched."""
        target = flat(into)
        with self.verified(key, target.nbytes) as payload:
            copy_bytes(target[: payload.nbytes], payload)
            return payload.nbytes

    @contextmanager
    def verified(self, key: str, max_bytes: int) -> Iterator[memoryview]:
        """The payload of at most `max_bytes`, verified, in a buffer that is lent until the block ends.

        Raises what `get` raises. For callers that stage anyway: it saves them a copy.
        """
        most = HEADER_BYTES + self._encoding.stored_bound(max_bytes)
        if self._fetch is not None:
            yield self._opened(key, self._fetch(key, most), max_bytes)
            return
        buffer = self._pool.take(most)
        try:
            yield self._opened(key, buffer[: self._inner.get(key, buffer)], max_bytes)
        finally:
            self._pool.give_back(buffer)

    def _opened(self, key: str, sealed: memoryview, max_bytes: int) -> memoryview:
        seal = read_seal(key, sealed)
        if seal.fingerprint_digest != self._fingerprint_digest:
            raise Corrupt(f"object `{key}` was put by an engine with another fingerprint")
        stored = sealed[HEADER_BYTES:]
        payload = self._encoding.decode(key, seal.encoding, seal.key_id, stored, max_bytes)
        if payload.nbytes > max_bytes:
            raise TooLarge(f"object `{key}` has {payload.nbytes} bytes, the buffer {max_bytes}")
        return payload

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        self.put_while(lambda: True, key, *parts)

    def put_while(self, valid: Callable[[], bool], key: str, *parts: Buffer) -> bool:
        """Put `parts` from memory that may be given to someone else meanwhile; False, and nothing put, if it was.

        `valid` says whether it is still the caller's, and once False stays so. It is asked after the checksum was
        taken: bytes that change later do not match, and are never used.
        """
        stored = self._encoding.encode(key, parts)
        header = make_header(
            key,
            self._fingerprint_digest,
            stored,
            encoding=self._encoding.name,
            key_id=self._encoding.key_id,
        )
        if not valid():
            return False
        # Direct file I/O takes page-aligned buffers only. The store below keeps none, so one per thread will do.
        page = getattr(self._thread, "page", None)
        if page is None:
            page = self._thread.page = memoryview(mmap(-1, HEADER_BYTES))
        page[:] = header
        self._inner.put(key, page, *stored)
        return True
