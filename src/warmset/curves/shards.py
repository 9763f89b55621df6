"""A trace in many files: on a local disk, or in an object store that workers read by themselves."""

import glob
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from warmset.errors import InputError
from warmset.traces import ReadOptions, Trace, stream

_STORES = ("s3://", "gs://", "az://", "abfs://")
_COPY_BYTES = 8 << 20


def list_shards(location: str) -> tuple[str, ...]:
    """The files of a trace, in order of name, which must be the order of time.

    `location` is a file, a folder after its format (`mooncake:logs/`), a pattern such as `day1/*.parquet`,
    or a folder in an object store (`s3://bucket/prefix/`); a `format:` before it goes to each file.
    Raises InputError when there is none.
    """
    prefix, place = _split(location)
    if place.startswith(_STORES):
        names = _listed(place)
    elif _is_folder_of_shards(prefix, place):
        names = [str(p) for p in Path(place).iterdir() if p.is_file() and not p.name.startswith((".", "_"))]
    elif Path(place).exists():
        names = [place]
    else:
        names = [name for name in glob.glob(place) if Path(name).is_file()]
    if not names:
        raise InputError(
            f"no trace files at `{location}`", hint="name a file, a folder, a pattern or s3://bucket/prefix/"
        )
    return tuple(prefix + name for name in sorted(names))


def place_of(location: str) -> str:
    """`location` without a format before it."""
    return _split(location)[1]


def is_many(location: str) -> bool:
    """Whether `location` names more than one plain file."""
    prefix, place = _split(location)
    if place.startswith(_STORES) or _is_folder_of_shards(prefix, place):
        return True
    return "*" in place and not Path(place).exists()


def stream_shard(shard: str, options: ReadOptions, skipped: dict[str, int] | None = None) -> Iterator[Trace]:
    """One shard in parts, by way of a temporary copy where it is in an object store; `skipped` as in `stream`."""
    prefix, place = _split(shard)
    if not place.startswith(_STORES):
        yield from stream(shard, options=options, skipped=skipped)
        return
    with _copied(place) as path:
        yield from stream(f"{prefix}{path}", options=options, skipped=skipped)


def stream_shards(
    shards: tuple[str, ...], options: ReadOptions, skipped: dict[str, int] | None = None
) -> Iterator[Trace]:
    """All shards in order, as one trace in parts."""
    for index, shard in enumerate(shards):
        yield from stream_shard(shard, _within(options, index, len(shards)), skipped)


def _within(options: ReadOptions, index: int, shards: int) -> ReadOptions:
    """Progress through one shard as progress through all; shards count alike, whatever their size."""
    whole = options.progress
    if whole is None:
        return options
    return replace(options, progress=lambda done, total: whole(index * total + done, shards * total))


def _is_folder_of_shards(prefix: str, place: str) -> bool:
    # A folder without a format, and one of agent sessions, is a trace by itself.
    return prefix not in ("", "agent:") and Path(place).is_dir()


def _split(location: str) -> tuple[str, str]:
    from warmset.traces.reading import FORMATS

    name, colon, place = location.partition(":")
    return (f"{name.lower()}:", place) if colon and name.lower() in FORMATS else ("", location)


def _store(url: str) -> tuple[Any, str, str]:
    """The object store of `url`, the part of the URL that names it, and the path inside."""
    try:
        from obstore.store import from_url
    except ImportError:
        raise InputError(
            f"reading `{url}` needs the package `obstore`", hint="pip install 'warmset[distributed]'"
        ) from None
    scheme, rest = url.split("://", 1)
    bucket, _, path = rest.partition("/")
    root = f"{scheme}://{bucket}"
    return from_url(root), root, path


def _listed(url: str) -> list[str]:
    store, root, path = _store(url)
    try:
        found = [item["path"] for batch in store.list(path.rstrip("/") or None) for item in batch]
    except Exception as error:  # noqa: BLE001  each cloud has its own
        raise InputError(
            f"cannot list `{url}`: {str(error).splitlines()[0]}", hint="check bucket and credentials"
        ) from None
    return [f"{root}/{name}" for name in found]


@contextmanager
def _copied(url: str) -> Iterator[Path]:
    store, _, path = _store(url)
    with tempfile.TemporaryDirectory(prefix="warmset-shard-") as folder:
        copy = Path(folder) / Path(path).name
        try:
            with copy.open("wb") as out:
                for piece in store.get(path).stream(min_chunk_size=_COPY_BYTES):
                    out.write(bytes(piece))
        except Exception as error:  # noqa: BLE001  each cloud has its own
            raise InputError(
                f"cannot read `{url}`: {str(error).splitlines()[0]}", hint="check bucket and credentials"
            ) from None
        yield copy
