"""A store in this process's memory, for tests: it copies what it is given and what it returns."""

import threading
import time
from collections.abc import Iterator, Sequence

from warmset.tiers.errors import Full, NotFound, TooLarge
from warmset.tiers.store import Buffer, Capacity, Entry, Properties, check_key, flat


class MemoryStore:
    """Objects in a dict; `capacity_bytes` bounds their sum."""

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self._objects: dict[str, tuple[bytes, float]] = {}
        self._capacity_bytes = capacity_bytes
        self._lock = threading.Lock()

    @property
    def properties(self) -> Properties:
        """Neither shared nor persistent."""
        return Properties("memory", shared=False, persistent=False, requests_in_flight=1)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """See Store.exists."""
        return [check_key(key) in self._objects for key in keys]

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get."""
        with self._lock:
            found = self._objects.get(check_key(key))
        if found is None:
            raise NotFound(f"no object `{key}`")
        data = found[0]
        if len(data) > into.nbytes:
            raise TooLarge(f"object `{key}` has {len(data)} bytes, the buffer {into.nbytes}")
        flat(into)[: len(data)] = data
        return len(data)

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        check_key(key)
        data = b"".join(flat(part) for part in parts)
        with self._lock:
            if self._capacity_bytes is not None:
                others = sum(len(d) for k, (d, _) in self._objects.items() if k != key)
                if others + len(data) > self._capacity_bytes:
                    raise Full(f"no space for {len(data)} bytes in memory")
            self._objects[key] = (data, time.time())

    def delete(self, keys: Sequence[str]) -> None:
        """See Store.delete."""
        with self._lock:
            for key in keys:
                self._objects.pop(check_key(key), None)

    def touch(self, keys: Sequence[str]) -> None:
        """See Store.touch."""
        with self._lock:
            for key in keys:
                if (found := self._objects.get(check_key(key))) is not None:
                    self._objects[key] = (found[0], time.time())

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """See Store.entries."""
        with self._lock:
            snapshot = [Entry(key, len(data), at) for key, (data, at) in self._objects.items()]
        return iter([entry for entry in snapshot if entry.key.startswith(prefix)])

    def capacity(self) -> Capacity:
        """See Store.capacity."""
        if self._capacity_bytes is None:
            return Capacity(None, None)
        used = sum(entry.size_bytes for entry in self.entries())
        return Capacity(self._capacity_bytes, self._capacity_bytes - used)

    def close(self) -> None:
        """Forget everything."""
        self._objects.clear()
