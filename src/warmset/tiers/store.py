"""The interface of a store below RAM, and the guarantees that every backend and wrapper keeps."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from warmset.errors import InputError

# Keys are paths of plain segments: valid file names, object names and Redis keys alike, on every system.
_KEY = re.compile(r"(?!.*(?:^|/)\.{1,2}(?:/|$))[A-Za-z0-9_.=-]{1,200}(?:/[A-Za-z0-9_.=-]{1,200}){0,15}")
MAX_KEY_LENGTH = 800
# Every key of a tier starts with this; its eviction touches nothing else in the store.
TIER_ROOT = "kv/"

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Properties:
    """What callers may rely on, instead of asking for a backend's type.

    Attributes:
        name: the kind of backend, for reports and metric labels.
        shared: other hosts see the same objects.
        persistent: objects survive the end of this process.
        requests_in_flight: concurrent operations beyond which this backend gains nothing.
        alignment_bytes: buffers and lengths that are multiples of this take the fastest path; 1 if any do.
    """

    name: str
    shared: bool
    persistent: bool
    requests_in_flight: int
    alignment_bytes: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored object: size in bytes, and when it was last written or touched (Unix seconds)."""

    key: str
    size_bytes: int
    modified_seconds: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes in total and free where the store knows; None where it does not (object stores)."""

    total_bytes: int | None
    free_bytes: int | None


class Store(Protocol):
    """A flat map from keys to immutable objects. No key may be a folder of another (`a` beside `a/b`).

    All methods may be called from any thread, concurrently. They block, and release the GIL while they wait for
    the device or the network. They raise only the errors of `warmset.tiers.errors`.
    """

    @property
    def properties(self) -> Properties:
        """Constant for the life of the store; never blocks."""
        ...

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Whether each key can be read now, in the order given. A key that vanishes later is not an error."""
        ...

    def get(self, key: str, into: memoryview) -> int:
        """Read the whole object into `into` (writable, contiguous, bytes) and return its size.

        What `into` holds beyond the size is undefined, and all of it is after an error: callers that may not
        expose that read into a buffer of their own. Raises NotFound, TooLarge, Corrupt, or others.
        """
        ...

    def put(self, key: str, *parts: Buffer) -> None:
        """Store the concatenation of `parts` under `key`, replacing what was there.

        Atomic: a reader sees the old object, no object or the new one, never a mixture, also when the process is
        killed in the middle. When it returns, `get` on this store sees the object. The buffers are not kept: the
        caller may overwrite them at once. Raises Full, Denied, or others; then the old object is still there.
        """
        ...

    def delete(self, keys: Sequence[str]) -> None:
        """Remove the keys; those that are not there are no error."""
        ...

    def touch(self, keys: Sequence[str]) -> None:
        """Note that the keys were used, for eviction by recency; a best effort that ignores missing keys."""
        ...

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """All objects whose key starts with `prefix`, in any order; what changes meanwhile may or may not show.

        What others put there under names that are no keys is left out: nobody could delete it by its key.
        """
        ...

    def capacity(self) -> Capacity:
        """How much fits, where the store knows."""
        ...

    def close(self) -> None:
        """Release threads, connections and files. Idempotent; no other call may follow."""
        ...


def is_key(text: str) -> bool:
    """Whether every backend can hold `text` as a key; what is not one was not put by us and is not listed."""
    return len(text) <= MAX_KEY_LENGTH and _KEY.fullmatch(text) is not None


def check_key(key: str) -> str:
    """Return `key` if it is one that every backend can hold; raises InputError otherwise."""
    if not is_key(key):
        raise InputError(
            f"key `{key[:80]}` is not a path of plain segments",
            hint="use letters, digits and `_ . = -`, separated by single slashes",
        )
    return key


def flat(buffer: Buffer) -> memoryview:
    """The buffer as contiguous bytes, without a copy."""
    return memoryview(buffer).cast("B")
