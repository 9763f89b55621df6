"""Encryption at rest: AES-256-GCM, with a key of its own for every object, bound to the object's name."""

import hashlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warmset.errors import InputError
from warmset.tiers.codec import CodecStore
from warmset.tiers.errors import Corrupt, TooLarge
from warmset.tiers.store import Buffer, Store, flat

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_SALT_BYTES = 32
_TAG_BYTES = 16
# Every object has its own key, used for one message: the nonce may be constant.
_NONCE = bytes(12)


class Aes256Gcm:
    """Stores 32 bytes of salt, the ciphertext and its tag. `master_key` has 32 bytes and is never printed."""

    name = "aes-256-gcm"

    def __init__(self, master_key: bytes) -> None:
        if len(master_key) != KEY_BYTES:
            raise InputError(
                f"the encryption key has `{len(master_key)}` bytes, not {KEY_BYTES}",
                hint="make one with `head -c 32 /dev/urandom > tier.key`",
            )
        self._master_key = master_key
        self._new_cipher = _aes_gcm()

    def __repr__(self) -> str:
        return "Aes256Gcm(master_key=…)"

    def stored_bound(self, plain_bytes: int) -> int:
        """Salt and tag more."""
        return _SALT_BYTES + plain_bytes + _TAG_BYTES

    def encode(self, key: str, parts: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """See Codec.encode."""
        salt = secrets.token_bytes(_SALT_BYTES)
        plain = flat(parts[0]) if len(parts) == 1 else b"".join(flat(part) for part in parts)
        return salt, self._cipher(salt).encrypt(_NONCE, plain, key.encode())

    def decode(self, key: str, stored: memoryview, max_bytes: int) -> Buffer:
        """See Codec.decode; Corrupt if the object was changed, moved, or made with another key."""
        from cryptography.exceptions import InvalidTag

        length = stored.nbytes - _SALT_BYTES - _TAG_BYTES
        if length < 0:
            raise Corrupt(f"object `{key}` is shorter than its salt and tag")
        if length > max_bytes:
            raise TooLarge(f"object `{key}` has {length} bytes, the buffer {max_bytes}")
        try:
            return self._cipher(bytes(stored[:_SALT_BYTES])).decrypt(
                _NONCE, stored[_SALT_BYTES:], key.encode()
            )
        except InvalidTag:
            raise Corrupt(f"object `{key}` was changed, moved, or encrypted with another key") from None

    def _cipher(self, salt: bytes) -> "AESGCM":
        # BLAKE2b with a key is a pseudo-random function: the salt gives each object an independent key.
        own = hashlib.blake2b(salt, key=self._master_key, digest_size=32, person=b"warmset-tier").digest()
        cipher: AESGCM = self._new_cipher(own)
        return cipher


class EncryptingStore(CodecStore):
    """A wrapper that encrypts at rest. `master_key` has 32 bytes and is never printed."""

    def __init__(self, inner: Store, *, master_key: bytes) -> None:
        super().__init__(inner, Aes256Gcm(master_key))


def key_id(master_key: bytes) -> bytes:
    """8 bytes that tell keys apart and say nothing of the key itself."""
    return hashlib.blake2b(b"", key=master_key, digest_size=8, person=b"warmset-key-id").digest()


def _aes_gcm() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise InputError(
            "encryption at rest needs the package `cryptography`", hint="pip install 'warmset[tiers]'"
        ) from None
    return AESGCM
