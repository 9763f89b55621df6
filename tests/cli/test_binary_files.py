"""A file that is not text is refused wherever text is read: nothing that stands in it by chance is taken for a fact."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_POOL = b"INFO 01-01 10:00:00 [kv_cache_utils.py:1] GPU KV cache size: 229,376 tokens\n"
_METRICS = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="9000"} 1.0\n'
_PLAN = ("plan", "llama-3.1-8b", "--sessions", "9", "--context", "1k")
_CONTENTS = {
    "compressed": gzip.compress(_POOL),
    "a zero byte": _POOL + b"\0" + _POOL,
    "a late zero byte": _POOL * 2000 + b"\0",
    "latin-1": _POOL + b"INFO caf\xe9\n",
    "utf-16": _POOL.decode().encode("utf-16"),
}
_PAGES = {
    "a zero byte": _METRICS + b"\0\n",
    "latin-1": _METRICS + b"# caf\xe9\n",
}


_READERS = [
    (("measure", "PAGE", "--log", "FILE"), "server.log"),
    ((*_PLAN, "--log", "FILE"), "server.log"),
    (("check", "FILE"), "server.log"),
    (("check", "FILE"), "start.sh"),
    (("check", "--log", "FILE", "--", "vllm", "serve", "m"), "server.log"),
]


@pytest.mark.parametrize(
    ("words", "name", "content"),
    [
        (words, name, content)
        for words, name in _READERS
        for content in _CONTENTS
        if (words[0], content) != ("measure", "latin-1")
    ],
)
def test_logs_and_scripts(
    warmset: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], name: str, content: str
) -> None:
    file, page = tmp_path / name, tmp_path / "page.prom"
    file.write_bytes(_CONTENTS[content])
    page.write_bytes(_METRICS)
    ran = warmset(*({"FILE": file, "PAGE": page}.get(word, word) for word in words))
    assert (ran.code, ran.out) == (2, "")
    said, hint = ran.err.split("\n\nhint: ")
    assert f"`{file}` is" in said
    assert "text" in said or "binary" in said
    assert hint


@pytest.mark.parametrize("content", _PAGES)
@pytest.mark.parametrize("words", [("measure", "FILE"), (*_PLAN, "--metrics", "FILE")])
def test_pages_of_metrics(
    warmset: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], content: str
) -> None:
    file = tmp_path / "page.prom"
    file.write_bytes(_PAGES[content])
    ran = warmset(*(file if word == "FILE" else word for word in words))
    assert (ran.code, ran.out) == (2, "")
    assert str(file) in ran.err
    assert "\n\nhint: " in ran.err


def test_what_is_text_is_read(warmset: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_bytes(b"\xef\xbb\xbf" + _POOL.replace(b"\n", b"\r\n") + "INFO ü █ 語\n".encode())
    assert warmset(*_PLAN, "--log", file, "-o", "json").json()["device"]["source"] == "log"


@pytest.mark.parametrize(
    "content", [_CONTENTS["latin-1"], b"\0" * 70_000 + _POOL], ids=["latin-1", "emptied"]
)
def test_a_running_servers_log_is_not_lost_for_a_character(
    warmset: Callable[..., Any], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "server.log").write_bytes(content)
    (tmp_path / "page.prom").write_bytes(_METRICS)
    ran = warmset("measure", tmp_path / "page.prom", "--log", tmp_path / "server.log", "-o", "json")
    assert ran.code in (0, 2)
    assert "binary" not in ran.err
    assert "text" not in ran.err
