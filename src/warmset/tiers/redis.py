"""A store in Redis or Valkey."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from warmset.errors import InputError
from warmset.tiers.errors import Deadline, Denied, Full, NotFound, StoreError, TooLarge, Unavailable
from warmset.tiers.store import Buffer, Capacity, Entry, Properties, check_key, flat, is_key

# Redis keeps a string's length but not when it was written: that goes into 8 bytes before the object.
_STAMP_BYTES = 8
_PREFIX = b"warmset:"


class RedisStore:
    """Objects as strings under `warmset:` in the database of `url` (`redis://host:6379/0`, `rediss://…`).

    A password belongs into the environment variable WARMSET_REDIS_PASSWORD, not into the URL. `ca_file` is for
    `rediss`. Objects are limited to 512 MiB by the server.
    """

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        ca_file: Path | None = None,
        timeout_seconds: float = 5.0,
    ) -> None:
        try:
            import redis
        except ImportError:
            raise InputError(
                "a Redis store needs the package `redis`", hint="pip install 'warmset[tiers]'"
            ) from None
        self._errors = redis.exceptions
        self._url = url
        try:
            self._client: Any = redis.Redis.from_url(
                url,
                password=password,
                socket_timeout=timeout_seconds,
                socket_connect_timeout=timeout_seconds,
                retry=None,
                **(
                    {"ssl_ca_certs": str(ca_file)}
                    if ca_file is not None and url.startswith("rediss://")
                    else {}
                ),
            )
        except ValueError as error:
            raise InputError(f"store `{url}`: {error}", hint="like `redis://host:6379/0`") from None

    @property
    def properties(self) -> Properties:
        """Shared; persistent only as the server is configured, so not promised."""
        return Properties("redis", shared=True, persistent=False, requests_in_flight=8)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """See Store.exists: one round trip."""
        with self._client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.exists(_name(key))
            return [bool(answer) for answer in self._do(pipe.execute)]

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get."""
        view = flat(into)
        data = self.fetch(key, view.nbytes)
        view[: data.nbytes] = data
        return data.nbytes

    def fetch(self, key: str, max_bytes: int) -> memoryview:
        """The object in the memory that the client read it into; raises as `get` does."""
        # Ask for one byte more than fits: enough to notice an object that is too large, and bounded.
        data = self._do(lambda: self._client.getrange(_name(key), 0, _STAMP_BYTES + max_bytes))
        if len(data) < _STAMP_BYTES:
            raise NotFound(f"no object `{key}`")
        if len(data) - _STAMP_BYTES > max_bytes:
            raise TooLarge(f"object `{key}` is larger than the buffer of {max_bytes} bytes")
        return memoryview(data)[_STAMP_BYTES:]

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        data = b"".join((_now(), *(flat(part) for part in parts)))
        self._do(lambda: self._client.set(_name(key), data))

    def delete(self, keys: Sequence[str]) -> None:
        """See Store.delete."""
        for start in range(0, len(keys), 1000):
            names = [_name(key) for key in keys[start : start + 1000]]
            self._do(lambda names=names: self._client.unlink(*names))

    def touch(self, keys: Sequence[str]) -> None:
        """See Store.touch."""
        with self._client.pipeline(transaction=False) as pipe:
            for key in keys:
                # Only where it exists: SETRANGE would create a broken object.
                pipe.eval(_TOUCH, 1, _name(key), _now())
            self._do(pipe.execute)

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """See Store.entries."""
        pattern = _PREFIX.decode() + _glob_escaped(prefix) + "*"
        cursor = 0
        seen: set[bytes] = set()
        while True:
            cursor, names = self._do(lambda at=cursor: self._client.scan(at, match=pattern, count=500))
            fresh = []
            for name in names:
                # SCAN may repeat a key; a digest bounds what remembering it costs.
                digest = hashlib.blake2b(name, digest_size=8).digest()
                if digest not in seen:
                    seen.add(digest)
                    fresh.append(name)
            with self._client.pipeline(transaction=False) as pipe:
                for name in fresh:
                    pipe.strlen(name)
                    pipe.getrange(name, 0, _STAMP_BYTES - 1)
                answers = self._do(pipe.execute)
            for name, length, stamp in zip(fresh, answers[::2], answers[1::2], strict=True):
                key = name.decode(errors="replace").removeprefix(_PREFIX.decode())
                if length >= _STAMP_BYTES and is_key(key):
                    yield Entry(key, length - _STAMP_BYTES, int.from_bytes(stamp, "little") / 1e6)
            if cursor == 0:
                return

    def capacity(self) -> Capacity:
        """The server's `maxmemory`, where it has one."""
        memory = self._do(lambda: self._client.info("memory"))
        total = int(memory.get("maxmemory", 0))
        if not total:
            return Capacity(None, None)
        return Capacity(total, max(0, total - int(memory["used_memory"])))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _do(self, action: Any) -> Any:
        try:
            return action()
        except self._errors.RedisError as error:
            raise self._translated(error) from None

    def _translated(self, error: Exception) -> StoreError:
        words = f"store `{self._url}`: {str(error)[:200]}"
        if isinstance(error, self._errors.OutOfMemoryError):
            return Full(words)
        if isinstance(error, (self._errors.AuthenticationError, self._errors.NoPermissionError)):
            return Denied(words)
        if isinstance(error, self._errors.TimeoutError):
            return Deadline(words)
        return Unavailable(words)


_TOUCH = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('SETRANGE', KEYS[1], 0, ARGV[1]) end"


def _name(key: str) -> bytes:
    return _PREFIX + check_key(key).encode()


def _now() -> bytes:
    return int(time.time() * 1e6).to_bytes(_STAMP_BYTES, "little")


def _glob_escaped(text: str) -> str:
    return "".join("\\" + c if c in "*?[]\\^" else c for c in text)
