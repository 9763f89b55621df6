"""What may be done to an object's bytes on their way to rest, and a wrapper that does it."""

from collections.abc import Sequence
from typing import Protocol

from warmset.tiers.buffers import BufferPool
from warmset.tiers.errors import TooLarge
from warmset.tiers.store import Buffer, Store, flat
from warmset.tiers.wrapper import Wrapper


class Codec(Protocol):
    """A reversible change of an object's bytes. All methods may be called from any thread, concurrently."""

    @property
    def name(self) -> str:
        """What stored objects call it."""
        ...

    def stored_bound(self, plain_bytes: int) -> int:
        """The most bytes that `encode` makes of `plain_bytes`."""
        ...

    def encode(self, key: str, parts: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """What is stored under `key` for the concatenation of `parts`; none of `parts` is kept."""
        ...

    def decode(self, key: str, stored: memoryview, max_bytes: int) -> Buffer:
        """The plain bytes. Raises Corrupt, and TooLarge for more than `max_bytes`; never takes memory for more."""
        ...


class CodecStore(Wrapper):
    """Encodes what it puts and decodes what it gets; sizes in `entries` are those of the stored bytes."""

    def __init__(self, inner: Store, codec: Codec) -> None:
        super().__init__(inner)
        self._codec = codec
        self._pool = BufferPool()

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get; raises Corrupt for what the codec did not make."""
        target = flat(into)
        with self._pool.lend(self._codec.stored_bound(target.nbytes)) as staged:
            size = self._inner.get(key, staged)
            plain = flat(self._codec.decode(key, staged[:size], target.nbytes))
        if plain.nbytes > target.nbytes:
            raise TooLarge(f"object `{key}` has {plain.nbytes} bytes, the buffer {target.nbytes}")
        target[: plain.nbytes] = plain
        return plain.nbytes

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        self._inner.put(key, *self._codec.encode(key, parts))
