"""A store on a local or NFS directory: one file per object, which appears there when it is whole."""

import ctypes
import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from mmap import PAGESIZE, mmap
from pathlib import Path

from warmset.tiers.errors import Denied, Full, NotFound, StoreError, TooLarge, Unavailable
from warmset.tiers.store import Buffer, Capacity, Entry, Properties, check_key, flat, is_key
from warmset.tiers.whole_files import WholeFiles

# Unfinished files live apart from the objects, so that listing, eviction and readers never meet one.
_UNFINISHED = ".unfinished"

_KINDS: dict[int, type[StoreError]] = {
    errno.ENOSPC: Full,
    errno.EDQUOT: Full,
    errno.EFBIG: Full,
    errno.EACCES: Denied,
    errno.EPERM: Denied,
    errno.EROFS: Denied,
}


# Linux reads no more at once: read(2).
_MOST_READ_BYTES = 0x7FFFF000


class DiskStore:
    """Objects as files below `root`.

    `direct` opens files with O_DIRECT where the file system takes it: KV blocks are large and read once, and the page
    cache would hold a second copy of what RAM already holds. Buffers that are not page-aligned go through the
    page cache instead. `fsync` makes every put durable against a power cut. Without it a cut may lose recent objects,
    or leave those empty that went through the page cache; VerifyingStore finds such ones corrupt.

    `also_read_only` opens a directory that may only be read, too; puts are refused then.
    """

    def __init__(
        self, root: str | Path, *, direct: bool = True, fsync: bool = False, also_read_only: bool = False
    ) -> None:
        self._root = Path(root)
        # Paths of blocks are plain text: thousands a second are made, and pathlib's cost more than the checksum.
        self._text = os.path.join(self._root, "")
        self._direct_flag = 0
        self._usual_bytes = -1
        self._files: WholeFiles | None = None
        try:
            self._files = WholeFiles(self._root / _UNFINISHED, fsync=fsync)
            self._direct_flag = os.O_DIRECT if direct and _takes_direct_io(self._root / _UNFINISHED) else 0
        except OSError as error:
            self._refusal = _translated(error, self._root, Unavailable)
            readable = os.access(self._root, os.R_OK | os.X_OK)
            if not (also_read_only and readable and isinstance(self._refusal, Denied)):
                raise self._refusal from None

    @property
    def properties(self) -> Properties:
        """Shared if the directory is (NFS); the store cannot tell, so it says it is not."""
        alignment = PAGESIZE if self._direct_flag else 1
        return Properties(
            "disk", shared=False, persistent=True, requests_in_flight=16, alignment_bytes=alignment
        )

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """See Store.exists."""
        return [os.access(self._path(key), os.R_OK) for key in keys]

    def get(self, key: str, into: memoryview) -> int:
        """See Store.get."""
        path = self._path(key)
        view = flat(into)
        direct = self._direct_flag if _aligned(view) else 0
        with _classified(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | direct)
            try:
                done = os.preadv(descriptor, [view], 0)
                if done == self._usual_bytes and done < min(view.nbytes, _MOST_READ_BYTES):
                    # Blocks are all of one size, and every system call costs threads a wait for each other: a read
                    # that ends where the one before ended, with room for more, ended with its file.
                    return done
                size = self._usual_bytes = os.fstat(descriptor).st_size
                if size > view.nbytes:
                    raise TooLarge(f"object `{key}` has {size} bytes, the buffer {view.nbytes}")
                while done < size:
                    if direct and done % PAGESIZE:
                        self._leave_direct_io(descriptor)
                        direct = 0
                    count = os.preadv(descriptor, [view[done:]], done)
                    if count == 0:
                        raise Unavailable(f"object `{key}` became shorter while it was read")
                    done += count
                return done
            finally:
                os.close(descriptor)

    def put(self, key: str, *parts: Buffer) -> None:
        """See Store.put."""
        path = self._path(key)
        views = [view for view in map(flat, parts) if view.nbytes]
        direct = self._direct_flag if all(_aligned(v) and v.nbytes % PAGESIZE == 0 for v in views) else 0
        if self._files is None:
            raise self._refusal
        with _classified(path, missing=Unavailable):
            self._files.write(path, views, direct)

    def delete(self, keys: Sequence[str]) -> None:
        """See Store.delete; folders that are empty then go, too."""
        for key in keys:
            path = self._path(key)
            with _classified(path), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink(path)
            folder = key.rpartition("/")[0]
            with suppress(OSError):
                while folder:
                    os.rmdir(self._text + folder)
                    folder = folder.rpartition("/")[0]

    def touch(self, keys: Sequence[str]) -> None:
        """See Store.touch: recency is the file's modification time."""
        for key in keys:
            with suppress(OSError):
                os.utime(self._path(key))

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """See Store.entries."""
        folder = prefix.rpartition("/")[0]
        if prefix.startswith("/") or ".." in folder.split("/"):
            return  # no key of this store begins so
        start = self._root / folder
        yield from (e for e in self._walk(start) if e.key.startswith(prefix))

    def capacity(self) -> Capacity:
        """The file system's total and free bytes (free to this user)."""
        with _classified(self._root):
            stat = os.statvfs(self._root)
        return Capacity(stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize)

    def close(self) -> None:
        """Nothing is held open between calls."""

    def _path(self, key: str) -> str:
        return self._text + check_key(key)

    def _walk(self, folder: Path) -> Iterator[Entry]:
        try:
            scan = os.scandir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _translated(error, folder) from None
        with scan:
            for item in scan:
                with suppress(FileNotFoundError):
                    if item.is_dir(follow_symlinks=False):
                        if item.name != _UNFINISHED:
                            yield from self._walk(folder / item.name)
                    elif item.is_file(follow_symlinks=False):
                        key = (folder / item.name).relative_to(self._root).as_posix()
                        if is_key(key):
                            stat = item.stat(follow_symlinks=False)
                            yield Entry(key, stat.st_size, stat.st_mtime)

    def _leave_direct_io(self, descriptor: int) -> None:
        import fcntl

        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~self._direct_flag)


class _classified:  # noqa: N801 - reads as a statement: `with _classified(path):`
    """Turns OSError into the store's own errors; `missing` is what a path that is not there means."""

    def __init__(self, path: str | Path, missing: type[StoreError] = NotFound) -> None:
        self._path, self._missing = path, missing

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise _translated(error, self._path, self._missing) from None


def _translated(error: OSError, path: str | Path, missing: type[StoreError] = NotFound) -> StoreError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
        return missing(f"`{path}`: {error.strerror or error}")
    kind = _KINDS.get(error.errno or 0, Unavailable)
    return kind(f"`{path}`: {error.strerror or error}")


def _aligned(view: memoryview) -> bool:
    """Whether a direct transfer may use this buffer: address and length in whole pages."""
    if view.nbytes == 0 or view.nbytes % PAGESIZE:
        return False
    if view.readonly:
        # ctypes refuses read-only buffers; numpy does not, and is only needed here.
        import numpy as np

        address = int(np.frombuffer(view, dtype=np.uint8).ctypes.data)
    else:
        address = ctypes.addressof(ctypes.c_char.from_buffer(view))
    return address % PAGESIZE == 0


def _takes_direct_io(folder: Path) -> bool:
    """Whether files in `folder` can be written with O_DIRECT; overlay and network file systems may not."""
    probe = folder / f"probe-{secrets.token_hex(8)}"
    page = mmap(-1, PAGESIZE)
    opened = False
    try:
        descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_DIRECT | os.O_CLOEXEC, 0o640)
        opened = True
        try:
            return os.write(descriptor, page) == PAGESIZE
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return False
        if _KINDS.get(error.errno or 0) is Full:
            # A full disk must not keep a store from being opened, or nobody could make room on it.
            return opened
        raise
    finally:
        page.close()
        with suppress(OSError):
            os.unlink(probe)
