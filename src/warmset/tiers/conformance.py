"""The tests that every store passes. A new backend needs a few lines:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self, tmp_path):
            store = MyStore(tmp_path)
            yield store
            store.close()

Wrappers are tested the same way, around a MemoryStore.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from mmap import mmap
from typing import Any

import pytest

from warmset.errors import InputError
from warmset.tiers.errors import NotFound, TooLarge
from warmset.tiers.store import Store

PAGE = 4096


class StoreConformance:
    """Inherit, and give a `store` fixture that yields an empty store."""

    @pytest.fixture
    def read(self, store: Store) -> Callable[..., bytes]:
        """Read an object into a buffer of `room` bytes and return what came."""

        def read(key: str, room: int = 1 << 20) -> bytes:
            buffer = bytearray(room)
            return bytes(buffer[: store.get(key, memoryview(buffer))])

        return read

    @pytest.mark.parametrize(
        "size", [0, 1, 511, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 512 * 1024, (1 << 20) - 3]
    )
    def test_what_is_put_is_got(self, store: Store, read: Any, size: int) -> None:
        """Every size comes back, also those that direct I/O cannot take."""
        data = os.urandom(size)
        store.put("a/b", data)
        assert read("a/b") == data

    def test_parts_are_joined(self, store: Store, read: Any) -> None:
        """Several buffers make one object."""
        store.put("k", b"one", memoryview(b"two"), bytearray(b""), bytearray(b"three"))
        assert read("k") == b"onetwothree"

    def test_page_aligned_buffers(self, store: Store) -> None:
        """The fast path gives the same bytes, whatever was read before and however much room there is."""
        data, buffer = memoryview(mmap(-1, 4 * PAGE)), memoryview(mmap(-1, 8 * PAGE))
        data[:] = os.urandom(4 * PAGE)
        sizes = (4 * PAGE, 4 * PAGE, 2 * PAGE, 3 * PAGE + 5, 4 * PAGE, 0, 4 * PAGE)
        for number, size in enumerate(sizes):
            store.put(f"k{number}", data[: size // 2], data[size // 2 : size])
        for room in (8 * PAGE, 4 * PAGE):
            for number, size in enumerate(sizes):
                assert store.get(f"k{number}", buffer[:room]) == size
                assert buffer[:size] == data[:size]
                buffer[:] = bytes(8 * PAGE)

    def test_the_callers_buffer_is_not_kept(self, store: Store, read: Any) -> None:
        """A buffer that is overwritten after a put does not change the object."""
        buffer = bytearray(b"a" * PAGE)
        store.put("k", buffer)
        buffer[:] = b"b" * PAGE
        assert read("k") == b"a" * PAGE

    def test_a_put_replaces(self, store: Store, read: Any) -> None:
        """Longer and shorter objects replace each other whole."""
        for data in (b"long" * 5000, b"short", b"", b"longer" * 9000):
            store.put("k", data)
            assert read("k") == data

    def test_a_missing_key(self, store: Store) -> None:
        """A miss is NotFound, and nothing else."""
        with pytest.raises(NotFound):
            store.get("missing/key", memoryview(bytearray(8)))

    def test_an_object_that_does_not_fit(self, store: Store) -> None:
        """Too small a buffer is an error, never a part of the object."""
        store.put("k", b"x" * 100)
        with pytest.raises(TooLarge):
            store.get("k", memoryview(bytearray(99)))

    def test_exists_keeps_the_order(self, store: Store) -> None:
        """One answer per key, in the order asked."""
        store.put("a", b"1")
        store.put("c", b"")
        assert store.exists(["a", "b", "c", "a"]) == [True, False, True, True]
        assert store.exists([]) == []

    def test_delete_is_idempotent(self, store: Store) -> None:
        """Deleting what is not there is no error."""
        store.put("a", b"1")
        store.put("b", b"2")
        store.delete(["a", "never"])
        store.delete(["a"])
        store.delete([])
        assert store.exists(["a", "b"]) == [False, True]

    def test_entries(self, store: Store) -> None:
        """Listing shows keys, sizes and times, by prefix."""
        keys = {f"n{i % 3}/g{i % 2}/k{i}" for i in range(20)}
        for key in keys:
            store.put(key, b"x" * 10)
        assert {e.key for e in store.entries()} == keys
        assert {e.key for e in store.entries("n1/")} == {k for k in keys if k.startswith("n1/")}
        assert {e.key for e in store.entries("n1/g0/k1")} == {k for k in keys if k.startswith("n1/g0/k1")}
        assert list(store.entries("none")) == []
        assert all(e.size_bytes >= 10 and e.modified_seconds > 1.6e9 for e in store.entries())

    def test_touch_ignores_what_is_missing(self, store: Store, read: Any) -> None:
        """A touch never makes or harms an object."""
        store.put("a", b"data")
        store.touch(["a", "missing"])
        store.touch([])
        assert read("a") == b"data"
        assert store.exists(["missing"]) == [False]

    @pytest.mark.parametrize(
        "key", ["", "/a", "a/", "a//b", "../a", "a/../b", ".", "a\x00b", "ü", "a b", "x" * 2000]
    )
    def test_keys_that_are_none(self, store: Store, key: str) -> None:
        """A key that could leave its place is refused before anything is touched."""
        with pytest.raises(InputError):
            store.put(key, b"x")
        with pytest.raises(InputError):
            store.get(key, memoryview(bytearray(1)))

    def test_readers_never_see_a_mixture(self, store: Store) -> None:
        """While two writers race on one key, every read is one of the two objects, whole."""
        objects = [bytes([i]) * (64 * 1024 + i) for i in (1, 2)]
        store.put("k", objects[0])
        stop = threading.Event()

        def write(data: bytes) -> None:
            while not stop.is_set():
                store.put("k", data)

        def read_some() -> None:
            buffer = bytearray(1 << 17)
            for _ in range(60):
                assert bytes(buffer[: store.get("k", memoryview(buffer))]) in objects

        with ThreadPoolExecutor(4) as pool:
            writers = [pool.submit(write, data) for data in objects]
            readers = [pool.submit(read_some) for _ in range(2)]
            try:
                for reader in readers:
                    reader.result(60)
            finally:
                stop.set()
            for writer in writers:
                writer.result(60)

    def test_many_threads(self, store: Store) -> None:
        """Parallel puts and gets on different keys do not disturb each other."""

        def one(i: int) -> bool:
            data = i.to_bytes(4, "big") * 4096
            store.put(f"t/{i}", data)
            buffer = bytearray(len(data))
            return store.get(f"t/{i}", memoryview(buffer)) == len(data) and bytes(buffer) == data

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(one, range(64)))

    def test_capacity_and_properties(self, store: Store) -> None:
        """What is known is consistent."""
        capacity = store.capacity()
        if capacity.total_bytes is not None and capacity.free_bytes is not None:
            assert 0 <= capacity.free_bytes <= capacity.total_bytes
        assert store.properties.requests_in_flight >= 1
        assert store.properties == store.properties

    def test_close_twice(self, store: Store) -> None:
        """Closing is idempotent."""
        store.close()
        store.close()
