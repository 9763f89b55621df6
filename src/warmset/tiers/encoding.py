"""How payloads lie in a store: plain, compressed, encrypted, or both. Every header says it of its own object."""

from collections.abc import Sequence

from warmset.tiers.codec import Codec
from warmset.tiers.compress import Zstd
from warmset.tiers.encrypt import Aes256Gcm, key_id
from warmset.tiers.errors import Corrupt, Locked
from warmset.tiers.store import Buffer, flat

PLAIN = "plain"
NO_KEY = bytes(8)
_COMPRESSED, _ENCRYPTED = Zstd.name, Aes256Gcm.name
_KNOWN = (PLAIN, _COMPRESSED, _ENCRYPTED, f"{_COMPRESSED}+{_ENCRYPTED}")


class Encoding:
    """Writes in one way, and reads what was written in any way that its key opens.

    Whether blocks are compressed is the writer's choice alone; readers follow the header. `master_key` has 32
    bytes; None neither encrypts nor opens what is encrypted. With a key, nothing else is read.
    """

    def __init__(self, *, compress: bool = False, master_key: bytes | None = None) -> None:
        self._zstd = Zstd()
        self._cipher = None if master_key is None else Aes256Gcm(master_key)
        self.key_id = NO_KEY if master_key is None else key_id(master_key)
        self._steps: tuple[Codec, ...] = (
            *((self._zstd,) if compress else ()),
            *((self._cipher,) if self._cipher else ()),
        )
        # `plain`, `zstd`, `aes-256-gcm` or `zstd+aes-256-gcm`; at most 16 characters of ASCII.
        self.name = "+".join(step.name for step in self._steps) or PLAIN

    def stored_bound(self, plain_bytes: int) -> int:
        """The most bytes that a payload of `plain_bytes` takes in any encoding."""
        return self._zstd.stored_bound(plain_bytes) + 64

    def encode(self, key: str, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """What is stored for `parts`; the parts themselves if nothing is done to them."""
        for step in self._steps:
            parts = step.encode(key, parts)
        return parts

    def decode(self, key: str, name: str, made_with: bytes, stored: memoryview, max_bytes: int) -> memoryview:
        """The payload of an object whose header names the encoding `name` and the key `made_with`.

        Raises Locked without that key: nothing says then that the object is damaged. Raises Corrupt or TooLarge.
        """
        if name not in _KNOWN:
            raise Corrupt(f"object `{key}` has the unknown encoding `{name}`")
        if self._cipher is not None and not is_encrypted(name):
            # Anyone who can write to the store could have put it.
            raise Corrupt(f"object `{key}` is not encrypted, as all others are")
        if is_encrypted(name):
            if self._cipher is None:
                raise Locked(f"object `{key}` is encrypted, no key")
            if made_with != self.key_id:
                raise Locked(f"object `{key}` is encrypted with another key")
            stored = flat(self._cipher.decode(key, stored, self._zstd.stored_bound(max_bytes)))
        if _COMPRESSED in name:
            stored = flat(self._zstd.decode(key, stored, max_bytes))
        return stored


def is_encrypted(name: str) -> bool:
    """Whether an object in the encoding `name` needs a key to be read."""
    return _ENCRYPTED in name
