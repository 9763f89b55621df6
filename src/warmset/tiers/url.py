"""From a store's URL to the store: `file:///kv`, `s3://bucket/prefix`, `gs://…`, `az://…`, `redis://host:6379/0`."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from warmset.errors import InputError
from warmset.tiers.store import Store

SCHEMES = ("file", "s3", "gs", "az", "redis", "rediss")
_OBJECT_SCHEMES = ("s3", "gs", "az")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a URL does not say. `endpoint` and `region` serve S3-compatible stores, `ca_file` those and `rediss`.
    `put_timeout_seconds` is for object stores, where it is longer than the timeout of other requests. `also_read_only`
    opens directories that may only be read."""

    endpoint: str | None = None
    region: str | None = None
    ca_file: Path | None = None
    timeout_seconds: float = 5.0
    put_timeout_seconds: float | None = None
    direct: bool = True
    fsync: bool = False
    also_read_only: bool = False


def open_store(url: str, options: StoreOptions | None = None) -> Store:
    """The bare backend behind `url`, without wrappers. Raises InputError for what is no store."""
    settings = options or StoreOptions()
    check_url(url)
    if settings.endpoint is not None:
        check_endpoint(settings.endpoint)
    parts = urlsplit(url)
    if parts.scheme == "file":
        from warmset.tiers.disk import DiskStore

        return DiskStore(
            unquote(parts.path),
            direct=settings.direct,
            fsync=settings.fsync,
            also_read_only=settings.also_read_only,
        )
    if parts.scheme in _OBJECT_SCHEMES:
        from warmset.tiers.objects import ObjectStore

        return ObjectStore(
            url,
            endpoint=settings.endpoint,
            region=settings.region,
            ca_file=settings.ca_file,
            timeout_seconds=settings.timeout_seconds,
            put_timeout_seconds=settings.put_timeout_seconds,
        )
    from warmset.tiers.redis import RedisStore

    return RedisStore(
        url,
        password=os.environ.get("WARMSET_REDIS_PASSWORD"),
        ca_file=settings.ca_file,
        timeout_seconds=settings.timeout_seconds,
    )


def check_url(url: str) -> None:
    """Raise InputError, without touching anything, if `url` is not the address of a store."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in SCHEMES:
        raise InputError(
            f"`{_without_secrets(url)}` is not a store",
            hint="use file:///path, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or redis://host:port/0",
        )
    if parts.password:
        raise InputError(
            f"store `{_without_secrets(url)}` carries a password",
            hint="set WARMSET_REDIS_PASSWORD instead; a URL ends up in logs and process lists",
        )
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise InputError(f"`{url[:200]}` is not an absolute path", hint="write it like `file:///var/kv`")
    elif not parts.netloc:
        raise InputError(
            f"`{url[:200]}` names no bucket or host", hint=f"write it like `{parts.scheme}://name/prefix`"
        )


def _without_secrets(url: str) -> str:
    """The URL as it may be printed."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return "…"
    return (url.replace(password, "…") if password else url)[:200]


def check_endpoint(url: str) -> None:
    """Raise InputError for what is no address of a server, or carries credentials; the message shows none."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or "@" in url or any(c.isspace() or not c.isprintable() for c in url):
        raise InputError(
            f"endpoint `{url.rpartition('@')[2][:80]}` is not an address of an object store",
            hint="write it like `https://minio.example:9000`; credentials come from the environment",
        )
