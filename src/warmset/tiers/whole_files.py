"""Files that appear under their names whole or not at all, also when their writer is killed in the middle."""

import errno
import itertools
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path

# A file this old that is still unfinished belongs to a writer that is gone: no put takes an hour.
_ABANDONED_SECONDS = 3600.0
# Each time, somebody else's last file in a folder must go between its making and its use.
_ATTEMPTS = 20


class WholeFiles:
    """Writes files of one file system; `folder` is where those lie that have no place of their own yet.

    Where the file system knows files without a name (O_TMPFILE: ext4, XFS, Btrfs, tmpfs), a file gets its name when it
    is whole, and the kernel frees it if the writer dies before. NFS and most of FUSE do not: there it is written
    in `folder` and renamed. That costs more: two directories change, and a file system renames across
    directories one file at a time. `fsync` makes every file durable against a power cut.
    """

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        self._folder = os.path.join(folder, "")
        self._fsync = fsync
        # Containers share host names and process numbers: only chance keeps two writers' files apart.
        self._writer = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._serial = itertools.count()
        self._made: set[str] = set()
        self._lock = threading.Lock()
        _make(folder)
        self._write = self._write_unnamed if self._takes_unnamed() else self._write_apart
        self._remove_abandoned()

    def write(self, path: str, views: list[memoryview], flags: int = 0) -> None:
        """Put the concatenation of `views` at `path`, instead of what was there; `flags` are added when opening.

        Folders are made as needed. Raises OSError; then `path` is what it was, unless only the
        folder could not be made durable.
        """
        folder = path.rpartition("/")[0]
        flags |= os.O_WRONLY | os.O_CLOEXEC
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._make_folder(folder)
                self._write(path, folder, views, flags)
                return
            except OSError as error:
                # Someone removed a folder since it was made, as empty, or does so at this moment: ext4 then says EPERM,
                # and making it may say that it exists.
                if error.errno not in (errno.ENOENT, errno.EPERM, errno.EEXIST) or not left:
                    raise
                self._made.discard(folder)
                with suppress(FileExistsError):
                    os.makedirs(self._folder, exist_ok=True)

    def _write_unnamed(self, path: str, folder: str, views: list[memoryview], flags: int) -> None:
        descriptor = os.open(folder, flags | os.O_TMPFILE, 0o640)
        try:
            self._fill(descriptor, views)
            try:
                _give_name(descriptor, path)
            except FileExistsError:
                # A link replaces nothing, a rename does.
                spare = self._unfinished()
                _give_name(descriptor, spare)
                _replace(spare, path)
        finally:
            os.close(descriptor)
        self._sync_folder(folder)

    def _write_apart(self, path: str, folder: str, views: list[memoryview], flags: int) -> None:
        unfinished = self._unfinished()
        descriptor = os.open(unfinished, flags | os.O_CREAT | os.O_EXCL, 0o640)
        try:
            try:
                self._fill(descriptor, views)
            finally:
                os.close(descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
        _replace(unfinished, path)
        self._sync_folder(folder)

    def _fill(self, descriptor: int, views: list[memoryview]) -> None:
        pending = list(views)
        while pending:
            count = os.writev(descriptor, pending[:512])
            while pending and count >= pending[0].nbytes:
                count -= pending.pop(0).nbytes
            if count:
                pending[0] = pending[0][count:]
        if self._fsync:
            os.fsync(descriptor)

    def _sync_folder(self, folder: str) -> None:
        if self._fsync:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _make_folder(self, folder: str) -> None:
        # Thousands of files share a folder: remember the ones that exist.
        if folder not in self._made:
            os.makedirs(folder, exist_ok=True)
            with self._lock:
                self._made.add(folder)

    def _unfinished(self) -> str:
        return f"{self._folder}{self._writer}-{next(self._serial)}"

    def _takes_unnamed(self) -> bool:
        """Whether the file system has files without a name, and /proc is there to name them later."""
        probe = self._unfinished()
        try:
            descriptor = os.open(self._folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o640)
        except OSError:
            return False
        try:
            _give_name(descriptor, probe)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        os.unlink(probe)
        return True

    def _remove_abandoned(self) -> None:
        """Delete what writers that were killed left behind."""
        now = self._file_system_time()
        with os.scandir(self._folder) as scan:
            for item in scan:
                with suppress(OSError):
                    if now - item.stat().st_mtime > _ABANDONED_SECONDS:
                        os.unlink(item.path)

    def _file_system_time(self) -> float:
        """Now by the file server's clock, which stamps the files, not by ours; no new file, for which a full disk has
        no room."""
        os.utime(self._folder)
        return os.stat(self._folder).st_mtime


def _make(folder: Path) -> None:
    """Make `folder`, for whom its parent belongs to: what root makes by looking must not lock the server out."""
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    above = folder.parent.stat()
    if (above.st_uid, above.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(OSError):
            os.chown(folder, above.st_uid, above.st_gid)


def _give_name(descriptor: int, path: str) -> None:
    # The descriptor's place in /proc is a symbolic link to the file. `src_dir_fd` says nothing about an absolute path,
    # but only with it Python calls linkat, which follows the link.
    os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)


def _replace(unfinished: str, path: str) -> None:
    try:
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
