"""A fingerprint of a model's weights by content: KV cache is only as reusable as the weights that made it."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from warmset.errors import InputError

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz")
_READ_BYTES = 8 << 20


def weights_fingerprint(folder: Path, *, cache_file: Path | None = None) -> str:
    """A digest of the content of every weight file in `folder` (not below it), in hexadecimal.

    Hashing reads all weights once. `cache_file` remembers each file's digest by what the file system says of it: path,
    device, inode, size, time of modification and of status change. The last cannot be set back by anyone, so
    weights that were changed in place are noticed even if their size and modification time are restored.
    Raises InputError if there are no weight files: without them nobody can tell one model from another.
    """
    if folder.is_file():
        files = [folder]
    else:
        files = sorted(path for path in folder.iterdir() if path.suffix in WEIGHT_SUFFIXES and path.is_file())
    if not files:
        raise InputError(
            f"no weight files in `{folder}`",
            hint=f"a file that ends in one of {', '.join(WEIGHT_SUFFIXES)} is needed",
        )
    known = _read_cache(cache_file)
    identities = {path: _identity(path) for path in files}
    missing = [path for path in files if identities[path] not in known]
    if missing:
        with ThreadPoolExecutor(min(4, len(missing)), "warmset-weights") as threads:
            known |= dict(zip((identities[p] for p in missing), threads.map(_digest, missing), strict=True))
        for path in missing:
            if _identity(path) != identities[path]:
                raise InputError(
                    f"weights `{path}` changed while they were read",
                    hint="start again when they are complete",
                )
        _write_cache(cache_file, known)
    total = hashlib.blake2b(digest_size=32)
    for path in files:
        # The name says which tensors a shard holds; the path does not matter: replicas mount it elsewhere.
        total.update(path.name.encode() + b"\0" + bytes.fromhex(known[identities[path]]))
    return total.hexdigest()


def default_cache_file() -> Path:
    """Where digests are remembered between starts."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "warmset" / "weights.json"


def _identity(path: Path) -> str:
    stat = path.resolve().stat()
    return "|".join(
        map(str, (path.resolve(), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns))
    )


def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=32)
    with path.open("rb", buffering=0) as file:
        # Read, not mapped: a file that is cut short while mapped would kill the process.
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _read_cache(cache_file: Path | None) -> dict[str, str]:
    if cache_file is None:
        return {}
    with suppress(OSError, ValueError):
        found = json.loads(cache_file.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return {k: v for k, v in found.items() if isinstance(v, str) and len(v) == 64}
    return {}


def _write_cache(cache_file: Path | None, known: dict[str, str]) -> None:
    """Best effort: a cache that cannot be written costs the next start the time to hash again."""
    if cache_file is None:
        return
    recent: Iterable[tuple[str, str]] = list(known.items())[-10_000:]
    with suppress(OSError):
        cache_file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=cache_file.parent, delete=False, encoding="utf-8") as file:
            json.dump(dict(recent), file)
        os.replace(file.name, cache_file)
