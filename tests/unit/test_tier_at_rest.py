"""Blocks that are compressed or encrypted at rest: what reads them, what refuses them, and where the key may be."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from warmset.errors import InputError
from warmset.tiers.conformance import StoreConformance
from warmset.tiers.disk import DiskStore
from warmset.tiers.encoding import Encoding
from warmset.tiers.errors import Corrupt, Locked, TooLarge
from warmset.tiers.key import read_key
from warmset.tiers.memory import MemoryStore
from warmset.tiers.scrub import scrub
from warmset.tiers.seal import HEADER_BYTES, digest, make_header
from warmset.tiers.settings import parse
from warmset.tiers.store import Store
from warmset.tiers.transfer import Transfers
from warmset.tiers.verify import VerifyingStore

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
DATA = bytes(range(256)) * 64
WAYS = {
    "plain": Encoding(),
    "zstd": Encoding(compress=True),
    "aes-256-gcm": Encoding(master_key=KEY),
    "zstd+aes-256-gcm": Encoding(compress=True, master_key=KEY),
}


def _read(store: Store, key: str = "k") -> bytes:
    buffer = bytearray(b"." * len(DATA))
    try:
        return bytes(buffer[: store.get(key, memoryview(buffer))])
    except Exception:
        assert buffer == b"." * len(DATA), "not a byte reached the caller's buffer"
        raise


class TestEncodedInMemory(StoreConformance):
    @pytest.fixture(params=list(WAYS))
    def store(self, request: pytest.FixtureRequest) -> Store:
        return VerifyingStore(MemoryStore(), encoding=WAYS[request.param])


class TestEncodedOnDisk(StoreConformance):
    @pytest.fixture(params=["zstd+aes-256-gcm"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
        store = VerifyingStore(DiskStore(tmp_path / "kv"), encoding=WAYS[request.param])
        yield store
        store.close()


@pytest.mark.parametrize("written", list(WAYS))
@pytest.mark.parametrize("reader", list(WAYS))
def test_readers_follow_the_header_as_far_as_their_key_goes(written: str, reader: str) -> None:
    memory = MemoryStore()
    VerifyingStore(memory, encoding=WAYS[written]).put("k", DATA)
    store = VerifyingStore(memory, encoding=WAYS[reader])
    if ("aes" in written) == ("aes" in reader):
        assert _read(store) == DATA
    elif "aes" in written:
        with pytest.raises(Locked, match="encrypted, no key"):
            _read(store)
    else:
        with pytest.raises(Corrupt, match="not encrypted"):
            _read(store)


def test_another_key_is_no_damage() -> None:
    memory = MemoryStore()
    VerifyingStore(memory, encoding=WAYS["aes-256-gcm"]).put("k", DATA)
    with pytest.raises(Locked, match="another key"):
        _read(VerifyingStore(memory, encoding=Encoding(master_key=OTHER)))


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("position", [0, 100, 104, 120, 127, 128, 135, HEADER_BYTES, HEADER_BYTES + 40, -1])
def test_one_flipped_bit_is_noticed_in_every_encoding(way: str, position: int) -> None:
    memory = MemoryStore()
    store = VerifyingStore(memory, encoding=WAYS[way])
    store.put("k", DATA)
    data = bytearray(memory._objects["k"][0])
    data[position] ^= 1
    memory.put("k", bytes(data))
    with pytest.raises(Corrupt):
        _read(store)


def test_who_lacks_the_key_cannot_make_a_block() -> None:
    """XXH3 can be computed by anyone: the header may say what it likes, the payload must decrypt."""
    memory = MemoryStore()
    encoding = WAYS["aes-256-gcm"]
    store = VerifyingStore(memory, encoding=encoding)
    for name in WAYS:
        header = make_header("k", digest(""), [DATA], encoding=name, key_id=encoding.key_id)
        memory.put("k", header, DATA)
        with pytest.raises(Corrupt):
            _read(store)


def test_nothing_of_the_content_is_in_an_encrypted_object() -> None:
    memory = MemoryStore()
    for way in ("aes-256-gcm", "zstd+aes-256-gcm"):
        VerifyingStore(memory, encoding=WAYS[way]).put("k", DATA)
        stored = memory._objects["k"][0]
        assert DATA[:32] not in stored
        assert KEY not in stored
    assert KEY.hex() not in repr(encoded := WAYS["aes-256-gcm"]) + str(vars(encoded))


def test_compression_takes_less_room_and_a_frame_that_claims_much_takes_none() -> None:
    import zstandard

    memory = MemoryStore()
    store = VerifyingStore(memory, encoding=WAYS["zstd"])
    store.put("k", DATA)
    assert len(memory._objects["k"][0]) < HEADER_BYTES + len(DATA) // 4
    bomb = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    memory.put("k", make_header("k", digest(""), [bomb], encoding="zstd"), bomb)
    with pytest.raises(TooLarge):
        _read(store)
    # No content size at all: a frame of a stream.
    stream = zstandard.ZstdCompressor().compressobj()
    frame = stream.compress(DATA) + stream.flush()
    memory.put("k", make_header("k", digest(""), [frame], encoding="zstd"), frame)
    with pytest.raises(Corrupt):
        _read(store)


@pytest.mark.parametrize("way", list(WAYS))
def test_blocks_go_through_slots_in_every_encoding(way: str) -> None:
    slots = bytearray(DATA) + bytearray(len(DATA))
    transfers = Transfers(
        VerifyingStore(MemoryStore(), encoding=WAYS[way]),
        memoryview(slots).cast("B", (2, len(DATA))),
        load_deadline_seconds=30,
        store_deadline_seconds=30,
    )
    transfers.store(1, ["a"], [0])
    transfers.drain()
    transfers.load(2, ["a"], [1])
    transfers.drain()
    assert [outcome.success for outcome in transfers.finished()] == [True, True]
    assert slots[len(DATA) :] == DATA
    transfers.shutdown()


def test_a_block_that_a_key_does_not_open_is_left_in_the_store() -> None:
    memory = MemoryStore()
    VerifyingStore(memory, encoding=WAYS["aes-256-gcm"]).put("a", DATA)
    transfers = Transfers(
        VerifyingStore(memory),
        memoryview(bytearray(len(DATA))).cast("B", (1, len(DATA))),
        load_deadline_seconds=30,
        store_deadline_seconds=30,
    )
    transfers.load(1, ["a"], [0])
    transfers.drain()
    assert not transfers.finished()[0].success
    assert memory.exists(["a"]) == [True]
    transfers.shutdown()


def test_a_scrub_deletes_what_is_damaged_and_never_what_is_locked() -> None:
    memory = MemoryStore()
    good = {way: f"good/{number}" for number, way in enumerate(WAYS)}
    bad = {f"bad/{number}" for number in range(len(WAYS))}
    for number, encoding in enumerate(WAYS.values()):
        store = VerifyingStore(memory, encoding=encoding)
        store.put(f"good/{number}", DATA)
        store.put(f"bad/{number}", DATA)
    for key in bad:
        data = bytearray(memory._objects[key][0])
        data[HEADER_BYTES + 100] ^= 1
        memory.put(key, bytes(data))
    without = scrub(memory)
    assert {f.key for f in without.corrupt} == bad, "no key is needed to see damage"
    assert (without.unreadable, without.unopened) == ((), 2)
    assert without.encodings == dict.fromkeys(WAYS, 1)
    wrong = scrub(memory, delete_corrupt=True, master_key=OTHER)
    assert {f.key for f in wrong.corrupt} == bad
    assert {(f.key, f.kind) for f in wrong.unreadable} == {
        (good["aes-256-gcm"], "locked"),
        (good["zstd+aes-256-gcm"], "locked"),
    }
    assert {e.key for e in memory.entries()} == set(good.values())
    right = scrub(memory, delete_corrupt=True, master_key=KEY)
    assert (right.objects, right.corrupt, right.unreadable, right.unopened) == (4, (), (), 0)


def test_a_scrub_with_the_key_finds_what_a_checksum_cannot() -> None:
    memory = MemoryStore()
    forged = make_header("k", digest(""), [DATA], encoding="aes-256-gcm", key_id=WAYS["aes-256-gcm"].key_id)
    memory.put("k", forged, DATA)
    assert scrub(memory).corrupt == ()
    assert [f.key for f in scrub(memory, master_key=KEY).corrupt] == ["k"]


@pytest.mark.parametrize(
    "content",
    [KEY, KEY.hex().encode(), KEY.hex().upper().encode() + b"\n", base64.b64encode(KEY) + b"\n"],
    ids=["raw", "hex", "HEX", "base64"],
)
def test_a_key_file_in_any_form(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tier.key"
    path.write_bytes(content)
    assert read_key(path) == KEY


def test_a_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIER_KEY", KEY.hex())
    assert read_key(None, "TIER_KEY") == KEY
    assert read_key() is None


@pytest.mark.parametrize(
    "content", [b"", b"secret-but-short", bytes(range(200, 233)), bytes(100_000), b"\xff" * 64], ids=len
)
def test_a_key_that_is_none_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    path = tmp_path / "tier.key"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no key of 32 bytes") as caught:
        read_key(path)
    assert "secret" not in caught.value.message + (caught.value.hint or "")
    monkeypatch.setenv("TIER_KEY", "secret-but-short")
    with pytest.raises(InputError, match="no key of 32 bytes") as caught:
        read_key(None, "TIER_KEY")
    assert "secret" not in caught.value.message + (caught.value.hint or "")


@pytest.mark.parametrize("text", [KEY.hex(), base64.b64encode(KEY).decode(), "ab" * 32])
def test_the_key_itself_in_place_of_its_source_is_refused_unseen(text: str) -> None:
    for table in ({"encryption_key_file": text}, {"encryption_key_env": text}):
        with pytest.raises(InputError, match="the encryption key itself") as caught:
            parse({"store": "file:///kv", **table})
        assert text not in caught.value.message + (caught.value.hint or "")
    for source in ((text, None), (None, text)):
        with pytest.raises(InputError, match="the encryption key itself"):
            read_key(*source)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"compress": "gzip"}, "`compress` of the warmset tier is `gzip`"),
        ({"compress": True}, "`compress` of the warmset tier is `True`"),
        ({"encryption_key_file": 5}, "`encryption_key_file` of the warmset tier is not a text"),
        ({"encryption_key_env": "no name"}, "no plain name"),
        ({"encryption_key_file": "/k", "encryption_key_env": "K"}, "named twice"),
    ],
)
def test_settings_that_cannot_be(table: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse({"store": "file:///kv", **table})
    assert caught.value.hint


def test_settings_that_can_be() -> None:
    settings = parse({"store": "file:///kv", "compress": "zstd", "encryption_key_env": "TIER_KEY"})
    assert (settings.compress, settings.encryption_key_env) == ("zstd", "TIER_KEY")
    assert parse({"store": "file:///kv", "compress": None}).compress is None


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_key(tmp_path / "none")
    with pytest.raises(InputError, match="`NO_SUCH_KEY`"):
        read_key(None, "NO_SUCH_KEY")
