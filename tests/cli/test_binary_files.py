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


_CUT = {
    "latin-1": _CONTENTS["latin-1"],
    "cut in a character": _POOL + "INFO ü".encode()[:-1],
    "emptied while it was written": b"\0" * 70_000 + _POOL,
    "emptied at its first line": b"\0" + _POOL,
}


@pytest.mark.parametrize("content", _CUT)
def test_a_running_servers_log_is_not_lost_for_a_character(
    warmset: Callable[..., Any], tmp_path: Path, content: str
) -> None:
    """`measure` says of the log what it says of the one line that is whole."""
    log, page = tmp_path / "server.log", tmp_path / "page.prom"
    page.write_bytes(b'vllm:cache_config_info{block_size="16"} 1.0\n')
    without = warmset("measure", page, "-o", "json").json()
    log.write_bytes(_POOL)
    whole = warmset("measure", page, "--log", log, "-o", "json")
    log.write_bytes(_CUT[content])
    ran = warmset("measure", page, "--log", log, "-o", "json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == whole.out
    assert ran.json()["tier"]["device_pool_tokens"] == 229_376
    assert without["tier"]["device_pool_tokens"] is None


_NOT_UTF_8 = "is not UTF-8 text (byte {at})\n\nhint: save the file as UTF-8\n"
_BINARY = "is binary\n\nhint: give a script, a manifest, an env file or a log\n"
_NO_TEXT = (
    "is not text\n\n"
    "hint: give a file with the server's start-up lines as UTF-8 text; unpack a compressed one first\n"
)


@pytest.mark.parametrize("content", _CUT)
@pytest.mark.parametrize(
    ("words", "of_zeros", "of_others"),
    [
        (("check", "FILE"), _BINARY, _NOT_UTF_8),
        (("check", "--log", "FILE", "--", "vllm", "serve", "m"), _BINARY, _NOT_UTF_8),
        ((*_PLAN, "--log", "FILE"), _NO_TEXT, _NO_TEXT),
    ],
)
def test_a_log_from_which_a_launch_or_a_size_follows_has_to_be_whole(
    warmset: Callable[..., Any],
    tmp_path: Path,
    words: tuple[str, ...],
    of_zeros: str,
    of_others: str,
    content: str,
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(_CUT[content])
    ran = warmset(*(log if word == "FILE" else word for word in words))
    said = of_zeros if content.startswith("emptied") else of_others
    at = len(_POOL) + len("INFO caf" if content == "latin-1" else "INFO ")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: `{log}` {said.format(at=at)}"


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\0" * 70_000, b"\xef\xbb\xbf"])
def test_measure_does_not_judge_by_an_empty_log(
    warmset: Callable[..., Any], tmp_path: Path, content: bytes
) -> None:
    log, page = tmp_path / "server.log", tmp_path / "page.prom"
    page.write_bytes(_METRICS)
    log.write_bytes(content)
    ran = warmset("measure", page, "--log", log)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"error: log `{log}` is empty\n\nhint: give the server's log file, or leave `--log` out\n"
    )
