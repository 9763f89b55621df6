"""A store that hands every call on: the base of the wrappers that change only how a call is made."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from warmset.tiers.store import Buffer, Capacity, Entry, Properties, Store

T = TypeVar("T")


class Wrapper:
    """Routes every operation through `_call`, which a wrapper overrides; `operation` is the method's name.

    `hands_on` says that what it reads is, byte for byte, what the store below gave.
    """

    hands_on = False

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        return action()

    @property
    def properties(self) -> Properties:
        """Those of the store below."""
        return self._inner.properties

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """See Store.exists."""
        return self._call("exists", lambda: self._inner.exists(keys))

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get."""
        return self._call("get", lambda: self._inner.get(key, into))

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        self._call("put", lambda: self._inner.put(key, *parts))

    def delete(self, keys: Sequence[str]) -> None:
        """See Store.delete."""
        self._call("delete", lambda: self._inner.delete(keys))

    def touch(self, keys: Sequence[str]) -> None:
        """See Store.touch."""
        self._call("touch", lambda: self._inner.touch(keys))

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """See Store.entries."""
        return self._inner.entries(prefix)

    def capacity(self) -> Capacity:
        """See Store.capacity."""
        return self._call("capacity", self._inner.capacity)

    def close(self) -> None:
        """Close the store below."""
        self._inner.close()


def fetcher(store: Store) -> Callable[[str, int], memoryview] | None:
    """How to read an object of at most so many bytes without a copy, from a store that makes a buffer anyway (`fetch`).

    None where there is no such store, or a wrapper changes what it gives: `get` is the way then.
    """
    if not isinstance(store, Wrapper):
        return getattr(store, "fetch", None)
    below = fetcher(store._inner) if store.hands_on else None
    if below is None:
        return None
    fetch = below
    return lambda key, max_bytes: store._call("get", lambda: fetch(key, max_bytes))
