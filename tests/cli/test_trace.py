"""`warmset trace` from the outside."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Warmset = Callable[..., Any]

ROW = (
    '{{"timestamp": {t}, "input_length": {n}, "output_length": 4, "hash_ids": {ids}, "session_id": "{s}"}}\n'
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two sessions of two turns behind one shared block."""
    path = tmp_path / "t.jsonl"
    path.write_text(
        ROW.format(t=0, n=1024, ids="[1, 2]", s="a")
        + ROW.format(t=1000, n=1024, ids="[1, 3]", s="b")
        + ROW.format(t=2000, n=1500, ids="[1, 2, 4]", s="a")
        + ROW.format(t=9000, n=1536, ids="[1, 3, 5]", s="b")
    )
    return path


def test_info(warmset: Warmset, trace: Path) -> None:
    ran = warmset("trace", "info", trace, "-o", "json")
    assert ran.code == 0
    assert ran.err == ""
    found = ran.valid("trace-info")
    assert (found["requests"], found["accesses"], found["unique_blocks"]) == (4, 10, 5)
    assert (found["block_tokens"], found["span_seconds"]) == (512, 9)
    assert found["total_tokens"] == found["prompt_tokens"] == 5084
    assert found["denominator"] == "block_tokens"
    assert found["ceiling"]["hit_tokens"] == 512 + 1024 + 1024
    assert found["ceiling"]["hit_ratio"] == pytest.approx(2560 / 5084)
    assert found["reuse"]["same_session"]["hit_tokens"] == 2048
    assert found["reuse"]["shared_prefix"]["hit_tokens"] == 512
    assert (found["sessions"], found["sessions_from"], found["skipped_requests"]) == (2, "trace", 0)


@pytest.mark.parametrize("form", ["table", "yaml", "md"])
def test_info_in_words(warmset: Warmset, trace: Path, form: str) -> None:
    ran = warmset("trace", "info", trace, "-o", form)
    assert ran.code == 0
    assert "shared" in ran.out
    assert "512" in ran.out


def test_info_without_times_sessions_or_outputs(warmset: Warmset, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"input_length": 32, "hash_ids": [1, 2]}\n{"input_length": 48, "hash_ids": [1, 2, 3]}\n')
    found = warmset("trace", "info", path, "--block-tokens", 16, "-o", "json").valid("trace-info")
    assert found["span_seconds"] is None
    assert found["output_tokens"] is None
    assert found["output_tokens_per_request"] is None
    assert (found["sessions"], found["sessions_from"]) == (1, "prefixes")
    assert len(found["notes"]) == 3


def test_bad_lines(warmset: Warmset, trace: Path) -> None:
    with trace.open("a") as file:
        file.write('{"timestamp": 1, "input_length": 512, "hash_ids": [1]}\n{"timestamp": 99000, "inp')
    ran = warmset("trace", "info", trace)
    assert ran.code == 2
    assert "line 5: time runs backwards" in ran.err or "line 6" in ran.err
    assert "hint:" in ran.err
    assert ran.out == ""
    found = warmset("trace", "info", trace, "--skip-bad", "-o", "json").valid("trace-info")
    assert found["requests"] == 4
    assert found["skipped_requests"] == 2
    assert {s["first_line"] for s in found["skipped"].values()} == {5, 6}


def test_convert_keeps_everything(warmset: Warmset, trace: Path, tmp_path: Path) -> None:
    middle, last = tmp_path / "m.jsonl.gz", tmp_path / "l.jsonl.zst"
    ran = warmset("trace", "convert", trace, middle, "--to", "warmset", "-o", "json")
    assert ran.code == 0
    ran.valid("trace-written")
    assert json.loads(gzip.decompress(middle.read_bytes()).splitlines()[0])["format"] == "warmset.trace/1"
    assert warmset("trace", "convert", middle, last).code == 0
    before = warmset("trace", "info", trace, "-o", "json").json()
    after = warmset("trace", "info", last, "-o", "json").json()
    for key in set(before) - {"source", "format", "notes"}:
        assert before[key] == after[key], key


def test_writing_is_careful(warmset: Warmset, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    ran = warmset("trace", "convert", trace, target)
    assert ran.code == 2
    assert "--force" in ran.err
    assert target.read_text() == "mine"
    assert warmset("trace", "convert", trace, target, "--force").code == 0
    assert warmset("trace", "convert", trace, tmp_path / "absent" / "x").code == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.jsonl", "t.jsonl"]
    # In place: the source is read in whole before it is replaced.
    assert warmset("trace", "convert", target, target, "--force").code == 0
    assert warmset("trace", "info", target).code == 0


def test_anonymise_keeps_structure_and_no_id(warmset: Warmset, trace: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    assert warmset("trace", "anonymise", trace, one).code == 0
    assert warmset("trace", "anonymise", trace, two).code == 0
    ids = [{i for line in p.open() for i in json.loads(line)["hash_ids"]} for p in (trace, one, two)]
    sessions = [{json.loads(line)["session_id"] for line in p.open()} for p in (trace, one, two)]
    for sets in (ids, sessions):
        assert len(sets[0]) == len(sets[1]) == len(sets[2])
        assert not sets[0] & sets[1]
        assert not sets[1] & sets[2]
    assert max(ids[1]) < 2**63
    before = warmset("trace", "info", trace, "-o", "json").json()
    after = warmset("trace", "info", one, "-o", "json").json()
    assert not [note for note in after["notes"] if "2^63" in note]
    for key in set(before) - {"source", "notes"}:
        assert before[key] == after[key], key
    assert warmset("trace", "anonymise", trace, tmp_path / "3.jsonl", "--to", "warmset").code == 0
    assert json.loads((tmp_path / "3.jsonl").read_text().splitlines()[0])["salted"] is True


@pytest.mark.parametrize("kind", ["chat", "agent", "rag", "noreuse"])
def test_generate(warmset: Warmset, tmp_path: Path, kind: str) -> None:
    paths = [tmp_path / f"{i}.jsonl.gz" for i in range(3)]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        assert warmset("trace", "generate", kind, path, "--seed", seed, "--sessions", 12).code == 0
    assert paths[0].read_bytes() == paths[1].read_bytes() != paths[2].read_bytes()
    found = warmset("trace", "info", paths[0], "-o", "json").json()
    assert found["requests"] >= 12
    assert found["sessions"] == 12
    assert found["block_tokens"] == 16
    ratio = found["ceiling"]["hit_ratio"]
    assert ratio == 0 if kind == "noreuse" else 0.1 < ratio < 1


def test_generate_to_standard_output(warmset: Warmset) -> None:
    ran = warmset("trace", "generate", "chat", "--sessions", 3, "--to", "warmset")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert lines[0]["format"] == "warmset.trace/1"
    assert len(lines) > 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["chat", "--documents", 5], "does not use `documents`"),
        (["chat", "--rate", 0], "`rate` is `0"),
        (["rag", "--documents", 0], "`documents` is `0`"),
        (["chat", "--sessions", "1e9"], "requests"),
        (["chat", "--turns", "nan"], "`turns`"),
        (["chat", "--systems", "1e11"], "`systems`"),
        (["rag", "--documents", "1e11"], "`documents`"),
        (["chat", "--input-tokens", "1e11", "--sessions", 2], "`input_tokens`"),
        (["chat", "--spread", 50], "`spread`"),
        (["chaos"], "chaos"),
    ],
)
def test_generate_refuses(warmset: Warmset, arguments: list[object], says: str) -> None:
    ran = warmset("trace", "generate", *arguments)
    assert ran.code == 2
    assert says in ran.err
    assert ran.out == ""


def test_system_prompt_is_what_chats_share(warmset: Warmset, tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    options = ("--sessions", 10, "--turns", 1, "--system-tokens", 1600, "--spread", 0)
    warmset("trace", "generate", "chat", path, *options)
    found = warmset("trace", "info", path, "-o", "json").json()
    assert found["reuse"]["shared_prefix"]["hit_tokens"] == 9 * 1600
    assert found["requests"] == 10


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\x00" * 100, b"MZ\x90\x00" * 50, b"hello", b"{}", b"[]"])
def test_what_is_no_trace(warmset: Warmset, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    ran = warmset("trace", "info", path)
    assert ran.code == 2
    assert str(path) in ran.err
    assert "hint:" in ran.err


def test_bounds_on_hostile_files(warmset: Warmset, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb", 9) as file:
        for _ in range(80):
            file.write(b"0" * 1_000_000)
    assert "line 1 is longer than 64.0 MiB" in warmset("trace", "info", f"mooncake:{bomb}").err
    ran = warmset("trace", "info", f"agent:{bomb}", "--max-size", "16MiB")
    assert ran.code == 2
    assert "--max-size" in ran.err
    assert warmset("trace", "info", f"csv:{bomb}", "--column", "nonsense").code == 2


def test_info_agrees_with_the_public_ceiling(warmset: Warmset, shared: Path) -> None:
    path = shared / "traces/mooncake/conversation_trace.jsonl.gz"
    found = warmset("trace", "info", f"mooncake:{path}", "--block-tokens", 512, "-o", "json").json()
    assert found["ceiling"]["hit_ratio"] == pytest.approx(0.3736, abs=5e-5)


def test_generated_traffic_is_bounded(
    warmset: Warmset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warmset.traces.generate.make.MAX_ACCESSES", 1000)
    ran = warmset("trace", "generate", "agent", tmp_path / "t.jsonl", "--sessions", 2)
    assert ran.code == 2
    assert "1,000 block accesses" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exponent", ["0", "100", "1000", "1e9"])
def test_any_steepness_of_popularity_makes_traffic(warmset: Callable, tmp_path: Path, exponent: str) -> None:
    ran = warmset("trace", "generate", "rag", tmp_path / "rag.jsonl", "--sessions", 5, "--zipf", exponent)
    assert ran.code == 0, ran.err
