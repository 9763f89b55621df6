"""One of a thing is singular, in every answer that counts what may be one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_PLURAL_ONE = re.compile(
    r"(?<![\d,.])1 (?:sessions|tokens|blocks|objects|requests|ranks|prompts|layers|block accesses|full chunks)\b"
)
_GEOMETRY = ("--layers", 1, "--kv-heads", 1, "--head-dim", 64)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One request of one block."""
    file = tmp_path / "one.jsonl"
    file.write_text('{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}\n')
    return file


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A directory with one object, which holds one block."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "block").write_bytes(b"x" * 100)
    return f"file://{tmp_path}/store"


@pytest.mark.parametrize(
    "words",
    [
        ("plan", *_GEOMETRY, "--sessions", 1, "--context", 1, "--hbm-kv", "1MiB"),
        ("plan", *_GEOMETRY, "--sessions", 1, "--context", 8192, "--hbm-kv", "1MiB", "--block-size", 16),
        ("plan", *_GEOMETRY, "--kv-cache-tokens", 64, "--sessions", 1, "--context", 16),
        ("plan", *_GEOMETRY, "--trace", "mooncake:TRACE", "--block-tokens", 512, "--hbm-kv", "1MiB"),
        ("footprint", *_GEOMETRY, "--context", 1),
        ("launch", "llama-3.1-8b", "--tier", 8, "--backend", "lmcache-inprocess", "--engine", "vllm@0.16"),
        ("launch", "llama-3.1-8b", "--tier", 8, "--engine", "vllm@0.11.0"),
        ("launch", "llama-3.1-8b", "--tier", 8, "--engine", "sglang"),
        ("trace", "info", "mooncake:TRACE", "--block-tokens", 512),
        ("trace", "convert", "mooncake:TRACE", "OUT", "--block-tokens", 512),
        ("curve", "mooncake:TRACE", "--block-tokens", 512, "--capacities", 1),
        ("tier", "ls", "STORE"),
        ("tier", "stats", "STORE"),
    ],
    ids=lambda words: " ".join(map(str, words[:2] if words[0] in ("trace", "tier") else words[:1])),
)
def test_one_is_singular(
    warmset: Callable[..., Any], trace: Path, store: str, tmp_path: Path, words: tuple[object, ...]
) -> None:
    places = {"TRACE": str(trace), "STORE": store, "OUT": str(tmp_path / "out.jsonl")}
    for name, place in places.items():
        words = tuple(str(word).replace(name, place) for word in words)
    ran = warmset(*words)
    assert ran.code == 0, ran.err
    assert _PLURAL_ONE.findall(ran.out + ran.err) == []
