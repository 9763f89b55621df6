"""Files that are whole or not there, on file systems with files without a name and on those without."""

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from warmset.tiers.conformance import StoreConformance
from warmset.tiers.disk import DiskStore
from warmset.tiers.errors import Full
from warmset.tiers.store import Store
from warmset.tiers.whole_files import WholeFiles

OPEN, LINK = os.open, os.link


def _no_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS answers."""

    def refuse(path: str, flags: int, *more: object, **options: object) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return OPEN(path, flags, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)


def _no_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a chroot without /proc."""

    def refuse(source: str, *more: object, **options: object) -> None:
        if source.startswith("/proc/"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        LINK(source, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "link", refuse)


WAYS = {"unnamed": lambda _: None, "renamed": _no_unnamed_files, "no /proc": _no_proc}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    WAYS[request.param](monkeypatch)
    return str(request.param)


def _views(*parts: bytes) -> list[memoryview]:
    return [memoryview(part) for part in parts]


def _tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


class TestRenaming(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
        _no_unnamed_files(monkeypatch)
        return DiskStore(tmp_path / "kv")


class TestInMemoryFileSystem(StoreConformance):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        if not os.access("/dev/shm", os.W_OK):
            pytest.skip("no tmpfs")
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield DiskStore(folder)


def test_files_are_written_and_replaced(way: str, tmp_path: Path) -> None:
    files = WholeFiles(tmp_path / "u")
    files.write(str(tmp_path / "a" / "b"), _views(b"one", b"two"))
    files.write(str(tmp_path / "a" / "c"), [])
    assert _tree(tmp_path) == {"a/b": b"onetwo", "a/c": b""}
    files.write(str(tmp_path / "a" / "b"), _views(b"three"))
    assert _tree(tmp_path) == {"a/b": b"three", "a/c": b""}


def test_the_way_fits_the_file_system(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, flags = WholeFiles(tmp_path / "u"), []
    opened = os.open
    monkeypatch.setattr(
        os, "open", lambda path, given, *more: (flags.append(given), opened(path, given, *more))[1]
    )
    files.write(str(tmp_path / "b"), _views(b"x"))
    assert [flag & os.O_TMPFILE == os.O_TMPFILE for flag in flags] == [way == "unnamed"]


def test_many_parts_and_short_writes(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writev = os.writev
    monkeypatch.setattr(os, "writev", lambda descriptor, views: writev(descriptor, [views[0][:5]]))
    parts = [bytes([n % 251]) * (n % 13 + 1) for n in range(700)]
    WholeFiles(tmp_path / "u").write(str(tmp_path / "b"), _views(*parts))
    assert (tmp_path / "b").read_bytes() == b"".join(parts)


@pytest.mark.parametrize("failing", ["writev", "replace", "fsync"])
def test_a_write_that_fails_leaves_everything_as_it_was(
    way: str, failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = WholeFiles(tmp_path / "u", fsync=True)
    files.write(str(tmp_path / "b"), _views(b"old"))

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, failing, fail)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No space"):
        files.write(str(tmp_path / "b"), _views(b"new"))
    assert _tree(tmp_path) == {"b": b"old"}
    assert len(os.listdir("/proc/self/fd")) == before
    monkeypatch.undo()


def test_folders_that_vanish_are_made_again(way: str, tmp_path: Path) -> None:
    files = WholeFiles(tmp_path / "u")
    target = tmp_path / "a" / "b"
    for text in (b"one", b"two"):
        files.write(str(target), _views(text))
        target.unlink()
        target.parent.rmdir()
        (tmp_path / "u").rmdir()
    files.write(str(target), _views(b"three"))
    assert _tree(tmp_path) == {"a/b": b"three"}


def test_a_folder_that_vanishes_while_a_file_is_opened_in_it_is_made_again(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, opened, answers = WholeFiles(tmp_path / "u"), os.open, [errno.EPERM]

    def going(path: str, *more: int) -> int:
        # ext4, of a folder that is removed between the look-up of its path and the new file in it.
        if answers:
            code = answers.pop()
            raise OSError(code, os.strerror(code))
        return opened(path, *more)

    monkeypatch.setattr(os, "open", going)
    files.write(str(tmp_path / "a" / "b"), _views(b"x"))
    answers += [errno.EACCES]
    with pytest.raises(PermissionError):
        files.write(str(tmp_path / "a" / "c"), _views(b"x"))
    assert _tree(tmp_path) == {"a/b": b"x"}


def test_a_folder_is_no_file(way: str, tmp_path: Path) -> None:
    files = WholeFiles(tmp_path / "u")
    (tmp_path / "b").mkdir()
    with pytest.raises(OSError, match=r"directory|exists"):
        files.write(str(tmp_path / "b"), _views(b"x"))
    assert _tree(tmp_path) == {}


def test_a_full_disk_is_told_as_such(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = DiskStore(tmp_path)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(Full):
        store.put("k", b"data")
    assert _tree(tmp_path) == {}


@pytest.mark.parametrize("full", ["of bytes", "of files"])
def test_a_store_on_a_full_disk_opens_so_that_room_can_be_made(
    way: str, full: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = bytes(8192)
    first = DiskStore(tmp_path)
    first.put("k", page)
    left = tmp_path / ".unfinished" / "someone"
    left.write_bytes(page)
    os.utime(left, (0, 0))
    opened = os.open

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def no_new_file(path: str, flags: int, *more: int) -> int:
        if flags & os.O_CREAT or flags & os.O_TMPFILE == os.O_TMPFILE:
            no_room()
        return opened(path, flags, *more)

    with monkeypatch.context() as patch:
        patch.setattr(os, *(("write", no_room) if full == "of bytes" else ("open", no_new_file)))
        patch.setattr(os, "writev", no_room)
        store = DiskStore(tmp_path)
        assert not left.exists(), "what is abandoned takes the room"
        if full == "of bytes":
            assert store.properties == first.properties, "direct I/O is not given up for it"
        with pytest.raises(Full):
            store.put("l", page)
        assert [entry.key for entry in store.entries()] == ["k"]
        store.delete(["k"])
    store.put("l", page)
    assert _tree(tmp_path) == {"l": page}


def test_deleting_what_is_a_folder_is_no_error(tmp_path: Path) -> None:
    store = DiskStore(tmp_path)
    store.put("a/b", b"x")
    store.delete(["a", "a/b", "a/b/c"])
    assert _tree(tmp_path) == {}
