"""A wrapper that encrypts at rest: AES-256-GCM, a key of its own for every object, bound to the object's key."""

import hashlib
import secrets
from typing import TYPE_CHECKING

from warmset.errors import InputError
from warmset.tiers.buffers import BufferPool
from warmset.tiers.errors import Corrupt, TooLarge
from warmset.tiers.store import Buffer, Store, flat
from warmset.tiers.wrapper import Wrapper

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_SALT_BYTES = 32
_TAG_BYTES = 16
# Every object has its own key, used for one message: the nonce may be constant.
_NONCE = bytes(12)


class EncryptingStore(Wrapper):
    """Stores 32 bytes of salt, the ciphertext and its tag. `master_key` has 32 bytes and is never printed."""

    def __init__(self, inner: Store, *, master_key: bytes) -> None:
        super().__init__(inner)
        if len(master_key) != 32:
            raise InputError(
                f"the encryption key has `{len(master_key)}` bytes, not 32",
                hint="make one with `head -c 32 /dev/urandom > tier.key`",
            )
        self._master_key = master_key
        self._pool = BufferPool()

    def __repr__(self) -> str:
        return "EncryptingStore(master_key=…)"

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get; raises Corrupt if the object was changed, moved, or made with another key."""
        from cryptography.exceptions import InvalidTag

        target = flat(into)
        with self._pool.lend(_SALT_BYTES + target.nbytes + _TAG_BYTES) as staged:
            size = self._inner.get(key, staged)
            length = size - _SALT_BYTES - _TAG_BYTES
            if length < 0:
                raise Corrupt(f"object `{key}` is shorter than its salt and tag")
            if length > target.nbytes:
                raise TooLarge(f"object `{key}` has {length} bytes, the buffer {target.nbytes}")
            cipher = self._cipher(bytes(staged[:_SALT_BYTES]))
            try:
                plain = cipher.decrypt(_NONCE, staged[_SALT_BYTES:size], key.encode())
            except InvalidTag:
                raise Corrupt(f"object `{key}` was changed, moved, or encrypted with another key") from None
        target[:length] = plain
        return length

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        salt = secrets.token_bytes(_SALT_BYTES)
        plain = b"".join(flat(part) for part in parts)
        self._inner.put(key, salt, self._cipher(salt).encrypt(_NONCE, plain, key.encode()))

    def _cipher(self, salt: bytes) -> "AESGCM":
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise InputError(
                "encryption at rest needs the package `cryptography`", hint="pip install 'warmset[tiers]'"
            ) from None
        # BLAKE2b with a key is a pseudo-random function: the salt gives each object an independent key.
        own = hashlib.blake2b(salt, key=self._master_key, digest_size=32, person=b"warmset-tier").digest()
        return AESGCM(own)
