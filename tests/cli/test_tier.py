"""`warmset tier` on a real directory and a real S3 server, each answer against its schema."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from warmset.tiers.disk import DiskStore
from warmset.tiers.verify import VerifyingStore


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}"


def test_ls_and_stats(warmset: Callable, store: DiskStore, url: str) -> None:
    for i in range(5):
        store.put(f"space{i % 2}/k{i}", bytes(1000))
    found = warmset("tier", "ls", url, "--limit", 3, "-o", "json").valid("tier-ls")
    assert len(found["entries"]) == 3
    assert found["truncated"] is True
    assert all(e["size_bytes"] == 1000 for e in found["entries"])
    counted = warmset("tier", "stats", url, "-o", "json").valid("tier-stats")
    assert (counted["objects"], counted["stored_bytes"]) == (5, 5000)
    assert [(n["name"], n["objects"]) for n in counted["namespaces"]] == [("space0", 3), ("space1", 2)]
    assert sum(a["objects"] for a in counted["ages"]) == 5
    for name in ("kv/aa/0/12/1234", "kv/aa/1/12/1234", "kv/bb/0/12/1234", "loose"):
        store.put(name, bytes(10))
    counted = warmset("tier", "stats", url, "-o", "json").valid("tier-stats")
    spaces = {n["name"]: n["objects"] for n in counted["namespaces"]}
    assert spaces == {"": 1, "kv/aa": 2, "kv/bb": 1, "space0": 3, "space1": 2}
    for name in ("kv/aa/0/12/1234", "kv/aa/1/12/1234", "kv/bb/0/12/1234", "loose"):
        store.delete([name])
    assert warmset("tier", "ls", url, "-o", "csv").out.startswith("key,size_bytes,age_seconds\n")


def test_gc_needs_a_bound_and_keeps_the_recent(
    warmset: Callable, store: DiskStore, tmp_path: Path, url: str
) -> None:
    for i in range(4):
        store.put(f"kv/k{i}", bytes(1000))
        os.utime(tmp_path / f"kv/k{i}", (1_700_000_000 + i, 1_700_000_000 + i))
    ran = warmset("tier", "gc", url)
    assert (ran.code, ran.out) == (2, "")
    assert "--capacity" in ran.err
    dry = warmset("tier", "gc", url, "--capacity", "3000B", "--dry-run", "-o", "json").valid("tier-gc")
    assert (dry["evicted_objects"], dry["freed_bytes"]) == (2, 2000)
    assert len(list(store.entries())) == 4
    warmset("tier", "gc", url, "--capacity", "3000B")
    assert {e.key for e in store.entries()} == {"kv/k2", "kv/k3"}
    warmset("tier", "gc", url, "--max-age", "1d")
    assert list(store.entries()) == []


def test_verify_finds_a_flipped_bit_and_deletes_only_when_told(
    warmset: Callable, store: DiskStore, tmp_path: Path, url: str
) -> None:
    sealed = VerifyingStore(store, fingerprint="engine")
    for i in range(3):
        sealed.put(f"kv/n/k{i}", bytes(20000))
    clean = warmset("tier", "verify", url, "-o", "json")
    assert clean.code == 0
    assert clean.valid("tier-verify")["corrupt"] == []
    path = tmp_path / "kv/n/k1"
    data = bytearray(path.read_bytes())
    data[9000] ^= 4
    path.write_bytes(data)
    dirty = warmset("tier", "verify", url, "-o", "json")
    assert dirty.code == 1
    assert [c["key"] for c in dirty.valid("tier-verify")["corrupt"]] == ["kv/n/k1"]
    assert path.exists()
    assert warmset("tier", "verify", url, "--delete-corrupt").code == 1
    assert not path.exists()
    assert warmset("tier", "verify", url).code == 0


def test_nothing_else_in_a_store_is_touched(warmset: Callable, store: DiskStore, url: str) -> None:
    store.put("photos/cat.jpg", bytes(5000))
    ran = warmset("tier", "verify", url, "--delete-corrupt")
    assert (ran.code, ran.out) == (2, "")
    assert "no blocks of a tier" in ran.err
    ran = warmset("tier", "gc", url, "--max-age", "0s", "-o", "json")
    assert (ran.code, ran.valid("tier-gc")["freed_bytes"]) == (0, 0)
    assert "no blocks of a tier" in ran.err
    assert [e.key for e in store.entries()] == ["photos/cat.jpg"]
    store.put("kv/n/0/aa/aabb", bytes(5000))
    assert warmset("tier", "verify", url, "--delete-corrupt").code == 1
    assert [e.key for e in store.entries()] == ["photos/cat.jpg"]
    store.put("kv/n/0/aa/aabb", bytes(5000))
    assert warmset("tier", "gc", url, "--capacity", "0").code == 0
    assert [e.key for e in store.entries()] == ["photos/cat.jpg"]
    # Without a header it is no block: named or not, it is not judged.
    ran = warmset("tier", "verify", url, "--prefix", "", "--delete-corrupt", "-o", "json")
    assert ran.code == 0
    found = ran.valid("tier-verify")
    assert (found["objects"], found["foreign"], found["corrupt"], found["deleted"]) == (1, 1, [], 0)
    assert "1 object of other programs" in warmset("tier", "verify", url, "--prefix", "photos/").out
    assert [e.key for e in store.entries()] == ["photos/cat.jpg"]
    # What is named is meant.
    assert warmset("tier", "gc", url, "--prefix", "photos/", "--capacity", "0").code == 0
    assert list(store.entries()) == []


def test_a_misspelt_prefix_is_not_clean(warmset: Callable, store: DiskStore, url: str) -> None:
    VerifyingStore(store).put("kv/n/0/aa/aabb", bytes(5000))
    assert warmset("tier", "verify", url, "--prefix", "kv/n/").code == 0
    ran = warmset("tier", "verify", url, "--prefix", "kv/m/")
    assert (ran.code, ran.out) == (2, "")
    assert "begins with `kv/m/`" in ran.err


def test_verify_says_what_it_deleted_and_how_to(warmset: Callable, store: DiskStore, url: str) -> None:
    store.put("kv/n/0/aa/aabb", bytes(5000))
    ran = warmset("tier", "verify", url, "--prefix", "kv/n")
    assert f"warmset tier verify {url} --prefix kv/n --delete-corrupt" in ran.out
    ran = warmset("tier", "verify", url, "--delete-corrupt")
    assert (ran.code, list(store.entries())) == (1, [])
    assert "1 deleted" in ran.out
    assert "1 corrupt object in" in ran.err


def test_a_list_for_programs_has_numbers(warmset: Callable, store: DiskStore, url: str) -> None:
    store.put("kv/k", bytes(5000))
    head, row = warmset("tier", "ls", url, "-o", "csv").out.splitlines()
    assert head == "key,size_bytes,age_seconds"
    assert row.startswith("kv/k,5000,")
    assert int(row.rpartition(",")[2]) < 60


def test_an_encrypted_store_is_verified_with_and_without_its_key(
    warmset: Callable, store: DiskStore, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from warmset.tiers.encoding import Encoding

    key, keys = bytes(range(32)), tmp_path.parent / f"{tmp_path.name}-keys"
    keys.mkdir()
    (keys / "right").write_bytes(key)
    (keys / "wrong").write_text("ab" * 32)
    sealed = VerifyingStore(store, encoding=Encoding(compress=True, master_key=key))
    for i in range(3):
        sealed.put(f"kv/n/k{i}", bytes(20000))
    without = warmset("tier", "verify", url, "--delete-corrupt", "-o", "json")
    assert without.code == 0
    found = without.valid("tier-verify")
    assert (found["corrupt"], found["unreadable"], found["unopened"]) == ([], [], 3)
    assert found["encodings"] == [{"encoding": "zstd+aes-256-gcm", "objects": 3}]
    assert "encrypted, no key" in found["notes"][0]
    assert "encrypted, no key" in warmset("tier", "verify", url).out
    wrong = warmset("tier", "verify", url, "--delete-corrupt", "--key-file", keys / "wrong", "-o", "json")
    assert wrong.code == 3
    assert {u["kind"] for u in wrong.valid("tier-verify")["unreadable"]} == {"locked"}
    right = warmset("tier", "verify", url, "--key-file", keys / "right", "-o", "json")
    assert right.code == 0
    assert right.valid("tier-verify")["unopened"] == 0
    monkeypatch.setenv("TIER_KEY", key.hex())
    assert warmset("tier", "verify", url, "--key-env", "TIER_KEY").code == 0
    assert len(list(store.entries())) == 3
    assert len(warmset("tier", "ls", url, "-o", "json").valid("tier-ls")["entries"]) == 3
    path = tmp_path / "kv/n/k1"
    data = bytearray(path.read_bytes())
    data[-1] ^= 4
    path.write_bytes(data)
    assert warmset("tier", "verify", url, "--delete-corrupt").code == 1, "damage is seen without the key"
    assert {e.key for e in store.entries()} == {"kv/n/k0", "kv/n/k2"}


def test_a_key_on_the_command_line_is_refused_unseen(warmset: Callable, url: str) -> None:
    for option in ("--key-file", "--key-env"):
        ran = warmset("tier", "verify", url, option, "ab" * 32)
        assert (ran.code, ran.out) == (2, "")
        assert "abab" not in ran.err
        assert "hint: " in ran.err


def test_bench_in_every_encoding(warmset: Callable, store: DiskStore, tmp_path: Path, url: str) -> None:
    key = tmp_path.parent / f"{tmp_path.name}.key"
    key.write_bytes(bytes(range(32)))
    words = ("tier", "bench", url, "--block", "64KiB", "--objects", 4, "-o", "json", "--quiet")
    for more in (("--compress",), ("--key-file", key), ("--compress", "--key-file", key)):
        assert warmset(*words, *more).valid("tier-bench")["get"]["bytes_per_second"] > 0
    assert list(store.entries()) == []


def test_bench_cleans_up_and_compares_with_prefill(warmset: Callable, store: DiskStore, url: str) -> None:
    ran = warmset("tier", "bench", url, "--block", "64KiB", "--objects", 8, "-o", "json", "--quiet")
    assert ran.code == 0
    assert ran.err == ""
    measured = ran.valid("tier-bench")
    assert measured["block_bytes"] == 65536
    assert measured["get"]["bytes_per_second"] > 0
    assert measured["break_even"] is None
    assert measured["notes"]
    assert list(store.entries()) == []
    assert warmset("tier", "bench", url).code == 2
    assert warmset("tier", "bench", url, "--block", "2GiB").code == 2


def test_break_even_is_where_the_two_times_are_equal() -> None:
    from warmset.tiers.bench import StoreBench, Timing, break_even

    get = Timing(10, 1e9, 0.010, 0.020)
    lookup = Timing(10, 0, 0.002, 0.003)
    measured = StoreBench(1 << 20, 10, 4, get, get, lookup, lookup)
    # 100 kB per token: 10,000 tokens/s from the store against 5,000 recomputed: 0.1 ms gained per token.
    even = break_even(measured, bytes_per_token=1e5, prefill_tokens_per_second=5000)
    assert even.ratio == pytest.approx(2)
    assert even.break_even_tokens == pytest.approx(0.012 / 0.0001, abs=1)
    never = break_even(measured, bytes_per_token=1e5, prefill_tokens_per_second=20000)
    assert never.break_even_tokens is None


def test_doctor_on_a_healthy_store(warmset: Callable, store: DiskStore, url: str) -> None:
    ran = warmset("tier", "doctor", url, "-o", "json")
    assert ran.code == 0
    found = ran.valid("tier-doctor")
    assert found["healthy"] is True
    assert [e["name"] for e in found["examinations"]] == [
        "list", "write", "look up", "read back", "clock", "space", "delete",
    ]  # fmt: skip
    assert list(store.entries()) == []


def test_doctor_names_what_is_wrong(warmset: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-secret")
    ran = warmset(
        "tier", "doctor", "s3://kv/p", "--endpoint", "http://127.0.0.1:9", "--region", "x", "--timeout", "1s",
        "-o", "json",
    )  # fmt: skip
    assert ran.code == 1
    found = ran.valid("tier-doctor")
    assert found["examinations"][0]["status"] == "failed"
    assert "address" in found["examinations"][0]["advice"]
    assert {e["status"] for e in found["examinations"][1:]} == {"skipped"}
    assert "hidden-secret" not in ran.out + ran.err


@pytest.mark.parametrize("url", ["nope", "file:///does/not/exist", "s3://", "redis://:pw@h/0"])
def test_what_is_no_store(warmset: Callable, url: str) -> None:
    ran = warmset("tier", "ls", url)
    assert (ran.code, ran.out) == (2, "")
    assert "hint: " in ran.err
    assert "pw" not in ran.err


def test_bench_takes_the_prefill_speed_that_plan_estimates(
    warmset: Callable, store: DiskStore, url: str
) -> None:
    words = ("--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--context", "8k", "--chunk-tokens", "1")
    run = warmset("tier", "bench", url, *words, "--objects", "2", "-o", "json")
    assert run.code == 0, run.err
    estimated = run.valid("tier-bench")["break_even"]["prefill_tokens_per_second"]
    plan = warmset(
        *("plan", "llama-3.1-8b", "--gpu", "h100-sxm", "--sessions", "1", "--context", "8k", "-o", "json")
    )
    lines = json.loads(plan.out)["break_even"]
    assert lines[0]["prefill_tokens_per_second"] == pytest.approx(estimated, rel=1e-3)
    alone = warmset("tier", "bench", url, "--block", "4096B", "--gpu", "h100-sxm")
    assert alone.code == 2
    assert "--model" in alone.err


@pytest.mark.parametrize("prefix", ["/", "/dev/null", "../", "a/../../", "../.."])
@pytest.mark.parametrize("words", [("ls",), ("gc", "--capacity", "1", "--dry-run"), ("verify",), ("stats",)])
def test_a_prefix_leads_nowhere_outside_the_store(
    warmset: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], prefix: str
) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "precious").write_bytes(b"x")
    ran = warmset("tier", words[0], f"file://{tmp_path}/store", *words[1:], "--prefix", prefix, "-o", "json")
    assert ran.code == 0, ran.err
    assert "precious" not in ran.out
