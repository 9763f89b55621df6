"""From a store's URL to the store: `file:///kv`, `s3://bucket/prefix`, `gs://…`, `az://…`, `redis://host:6379/0`."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from warmset.addresses import bare, check_endpoint, without_credentials
from warmset.errors import InputError
from warmset.tiers.credentials import CREDENTIALS
from warmset.tiers.store import Store

SCHEMES = ("file", "s3", "gs", "az", "redis", "rediss")
_OBJECT_SCHEMES = ("s3", "gs", "az")
_REDIS_SCHEMES = ("redis", "rediss")


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
    folder = directory(url)
    scheme, _, rest = url.partition("://")
    url = f"{scheme.lower()}://{rest}"
    if settings.endpoint is not None:
        check_endpoint(settings.endpoint)
    if folder is not None:
        from warmset.tiers.disk import DiskStore

        return DiskStore(
            folder,
            direct=settings.direct,
            fsync=settings.fsync,
            also_read_only=settings.also_read_only,
        )
    if urlsplit(url).scheme in _OBJECT_SCHEMES:
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


def directory(url: str) -> Path | None:
    """The directory that a `file://` URL names; None for other stores. Raises InputError for what is no store."""
    check_url(url)
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def check_url(url: str) -> None:
    """Raise InputError, without touching anything, if `url` is not the address of a store."""
    shown = without_credentials(url)[:200]
    try:
        parts = urlsplit(url)
        where = parts.hostname if parts.port != 0 else None
    except ValueError:
        parts, where = urlsplit(""), None
    if parts.scheme not in SCHEMES:
        raise InputError(
            f"`{bare(url)[:200]}` is not a store",
            hint="use file:///path, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or redis://host:port/0",
        )
    # What stands behind a `?` may set anything, a password too.
    extra = next((mark for mark in "?#" if mark in url), None)
    if "@" in parts.netloc or (extra and parts.scheme != "file"):
        what = "a password" if parts.password else "options" if extra else "a user"
        raise InputError(
            f"store `{bare(url)[:200]}` carries {what}: a URL ends up in logs and process lists",
            hint=CREDENTIALS[parts.scheme],
        )
    if parts.scheme == "file":
        if extra:
            raise InputError(
                f"`{shown}` has a `{extra}` in its path", hint="write %3F for `?` and %23 for `#`"
            )
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            path = f"/{parts.netloc}{parts.path}".rstrip("/")
            raise InputError(
                f"`{shown}` is not an absolute path", hint=f"three slashes make it one, like `file://{path}`"
            )
    elif not where:
        raise InputError(
            f"`{shown}` names no bucket or host", hint=f"write it like `{parts.scheme}://name/prefix`"
        )
    elif parts.scheme in _REDIS_SCHEMES and not re.fullmatch(r"/?|/\d{1,4}", parts.path):
        raise InputError(
            f"`{shown}` ends in something that is no number of a database",
            hint=f"write it like `{parts.scheme}://{parts.netloc}/0`; keys have no prefix there",
        )
