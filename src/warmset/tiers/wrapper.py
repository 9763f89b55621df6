"""A store that hands every call on: the base of the wrappers that change only how a call is made."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from warmset.tiers.store import Buffer, Capacity, Entry, Properties, Store

T = TypeVar("T")


class Wrapper:
    """Routes every operation through `_call`, which a wrapper overrides; `operation` is the method's name."""

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
