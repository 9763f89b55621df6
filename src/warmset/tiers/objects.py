"""A store in an object store (S3, GCS, Azure) through `obstore`."""

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from warmset.errors import InputError
from warmset.tiers.aws import aws_profile
from warmset.tiers.buffers import copy_bytes
from warmset.tiers.credentials import CREDENTIALS
from warmset.tiers.errors import (
    Deadline,
    Denied,
    Full,
    NotFound,
    StoreError,
    Throttled,
    TooLarge,
    Unavailable,
)
from warmset.tiers.store import Buffer, Capacity, Entry, Properties, check_key, flat, is_key

_STATUS = re.compile(r"status code: (\d{3})")
_ELAPSED_SECONDS = re.compile(r" in ([0-9.]+)s - ")
_REQUESTS_IN_FLIGHT = 32
# Every cloud's clients ask there last, when nothing else gave them credentials.
_IDENTITY_SERVICE = "169.254.169.254"


class ObjectStore:
    """Objects below the prefix of `url` (`s3://bucket/prefix`, `gs://…`, `az://container/prefix`).

    Credentials come from each cloud's own chain (environment, files of its command-line tools, workload identity); they
    are never arguments here. `endpoint` and `ca_file` serve S3-compatible stores. `timeout_seconds` bounds every
    single request, `put_timeout_seconds` a put if it is longer.
    """

    def __init__(
        self,
        url: str,
        *,
        endpoint: str | None = None,
        region: str | None = None,
        ca_file: Path | None = None,
        timeout_seconds: float = 5.0,
        put_timeout_seconds: float | None = None,
    ) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise InputError(
                f"store `{url}` needs the package `obstore`", hint="pip install 'warmset[tiers]'"
            ) from None
        self._obstore = obstore
        self._url = url.rstrip("/")
        self._scheme = url.partition("://")[0]
        self._timeout_seconds = timeout_seconds
        profile = aws_profile() if url.startswith("s3://") else None
        if profile is not None and not {"AWS_REGION", "AWS_DEFAULT_REGION"} & os.environ.keys():
            region = region or profile.region
        config: dict[str, Any] = {"endpoint": endpoint, "region": region}
        client: dict[str, Any] = {}
        if endpoint and endpoint.startswith("http://"):
            client["allow_http"] = True
        if ca_file is not None:
            client["root_certificate"] = _certificate(ca_file)
        more: dict[str, Any] = {} if profile is None else {"credential_provider": profile.credentials}

        def client_with(limit_seconds: float) -> Any:
            limit = timedelta(seconds=limit_seconds)
            return from_url(
                url,
                config={k: v for k, v in config.items() if v is not None},
                client_options={
                    **client,
                    "timeout": limit,
                    "connect_timeout": timedelta(seconds=timeout_seconds),
                },
                # Retrying is the business of RetryingStore: two layers of it multiply their waits.
                retry_config={"max_retries": 0, "retry_timeout": limit},
                **more,
            )

        try:
            self._store = client_with(timeout_seconds)
            # Nobody waits for a put, and it may be large: it has its own limit.
            self._put_store = client_with(max(timeout_seconds, put_timeout_seconds or 0))
        except (ValueError, OSError, obstore.exceptions.BaseError) as error:
            raise InputError(f"store `{url}`: {_head(error)}", hint=CREDENTIALS[self._scheme]) from None
        self._pool = ThreadPoolExecutor(_REQUESTS_IN_FLIGHT, "warmset-object")

    @property
    def properties(self) -> Properties:
        """Shared and persistent."""
        return Properties("object", shared=True, persistent=True, requests_in_flight=_REQUESTS_IN_FLIGHT)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """See Store.exists: one HEAD each, in parallel."""
        for key in keys:
            check_key(key)
        if len(keys) == 1:
            return [self._exists(keys[0])]
        return list(self._pool.map(self._exists, keys))

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get."""
        view = flat(into)
        data = self.fetch(key, view.nbytes)
        copy_bytes(view[: data.nbytes], data)
        return data.nbytes

    def fetch(self, key: str, max_bytes: int) -> memoryview:
        """The object in the memory that its download was put into; raises as `get` does."""
        check_key(key)
        try:
            answer = self._obstore.get(self._store, key)
            size = int(answer.meta["size"])
            if size > max_bytes:
                raise TooLarge(f"object `{key}` has {size} bytes, the buffer {max_bytes}")
            data = memoryview(answer.bytes())
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - obstore raises plain OSErrors and its own kinds
            raise self._translated(error, key) from None
        if data.nbytes != size:
            raise Unavailable(f"object `{key}` came with {data.nbytes} of its {size} bytes")
        return data

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put: one PUT, which object stores make atomic."""
        # obstore may keep a reference to a buffer that it is given; the caller will overwrite it.
        check_key(key)
        data = b"".join(flat(part) for part in parts)
        try:
            self._obstore.put(self._put_store, key, data, use_multipart=False)
        except Exception as error:  # noqa: BLE001
            raise self._translated(error, key) from None

    def delete(self, keys: Sequence[str]) -> None:
        """See Store.delete."""
        for key in keys:
            check_key(key)
        for start in range(0, len(keys), 1000):
            try:
                self._obstore.delete(self._store, list(keys[start : start + 1000]))
            except Exception:  # noqa: BLE001
                # Stores differ in how they answer for keys that are gone, some beyond what the client can read
                # (JuiceFS's gateway): one by one says for each what is wrong, if anything is.
                self._delete_singly(keys[start : start + 1000])

    def touch(self, keys: Sequence[str]) -> None:
        """Object stores keep no time of use: age counts from the last put."""

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """See Store.entries."""
        # Stores list by whole segments; the rest of the prefix is compared here.
        folder = prefix.rpartition("/")[0]
        try:
            for batch in self._obstore.list(self._store, folder or None, chunk_size=1000):
                for meta in batch:
                    if meta["path"].startswith(prefix) and is_key(meta["path"]):
                        yield Entry(meta["path"], meta["size"], meta["last_modified"].timestamp())
        except Exception as error:  # noqa: BLE001
            raise self._translated(error, prefix) from None

    def capacity(self) -> Capacity:
        """Object stores have no capacity to ask for."""
        return Capacity(None, None)

    def close(self) -> None:
        """End the threads that ask in parallel."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _exists(self, key: str) -> bool:
        try:
            self._obstore.head(self._store, key)
        except FileNotFoundError:
            return False
        except Exception as error:  # noqa: BLE001
            raise self._translated(error, key) from None
        return True

    def _delete_singly(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._obstore.delete(self._store, key)
            except FileNotFoundError:
                continue
            except Exception as error:  # noqa: BLE001
                if self._exists(key):
                    raise self._translated(error, key) from None

    def _translated(self, error: Exception, key: str) -> StoreError:
        words = f"`{self._url}/{key}`: {_head(error)}"
        asked_last = _IDENTITY_SERVICE in words
        hint = f"no credentials were found: {CREDENTIALS[self._scheme]}" if asked_last else None
        kinds = self._obstore.exceptions
        if isinstance(error, FileNotFoundError):
            return NotFound(words)
        if isinstance(error, (kinds.PermissionDeniedError, kinds.UnauthenticatedError)):
            return Denied(words, hint=hint)
        status = _STATUS.search(str(error))
        if status is not None:
            code = int(status[1])
            if code in (429, 503):
                return Throttled(words)
            if code == 507:
                return Full(words)
            if code == 404 and not asked_last:
                # An object that is not there is a FileNotFoundError; this is about what should hold it.
                return Denied(words, hint="check that the bucket exists, and the endpoint and its region")
            if 400 <= code < 500:
                return Denied(words, hint=hint)
        elapsed = _ELAPSED_SECONDS.search(str(error))
        if elapsed is not None and float(elapsed[1]) >= 0.95 * self._timeout_seconds:
            return Deadline(words, hint=hint)
        return Unavailable(words, hint=hint)


def _certificate(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"CA file `{path}`: {error.strerror or error}", hint="name a file in PEM format"
        ) from None


def _head(error: Exception) -> str:
    """The first line of obstore's long texts, without query strings: those may carry signatures."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return re.sub(r"\?\S+", "?…", line)[:300]
