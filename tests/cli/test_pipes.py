"""Pipes where a file is named: read while somebody writes, refused in bounded time where nobody does."""

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from warmset import opening

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")

_POOL = b"INFO 01-01 10:00:00 [kv_cache_utils.py:1] GPU KV cache size: 229,376 tokens\n"
_PAGE = b'vllm:cache_config_info{block_size="16",num_gpu_blocks="9000"} 1.0\n'
# More than a pipe holds at once.
# Blocks of 512 tokens: every second request is a token longer than one.
TRACE = "".join(
    json.dumps({"timestamp": 100 * n, "input_length": 512 + n % 2, "output_length": 9, "hash_ids": ids})
    + "\n"
    for n in range(2000)
    for ids in [[n % 50, 10_000 + n][: 1 + n % 2]]
).encode()
_PLAN = ("plan", "llama-3.1-8b", "--sessions", "9", "--context", "1k")
_COMMANDS = {
    ("measure", "PIPE"): _PAGE,
    ("measure", "PIPE", "FILE"): _PAGE,
    ("measure", "FILE", "--log", "PIPE"): _POOL,
    ("check", "PIPE"): _POOL,
    ("check", "--log", "PIPE", "--", "vllm", "serve", "m"): _POOL,
    (*_PLAN, "--metrics", "PIPE"): _PAGE,
    (*_PLAN, "--log", "PIPE"): _POOL,
    ("curve", "PIPE"): TRACE,
    ("curve", "mooncake:PIPE"): TRACE,
    ("trace", "info", "PIPE"): TRACE,
    ("trace", "info", "PIPE", "--max-size", "1GiB"): TRACE,
    ("trace", "info", "mooncake:PIPE"): gzip.compress(TRACE),
    ("plan", "llama-3.1-8b", "--hbm-kv", "1", "--trace", "PIPE"): TRACE,
}
_MORE = [
    ("measure", "FILE", "--baseline", "PIPE"),
    ("snapshot", "--targets", "PIPE"),
    ("watch", "--targets", "PIPE"),
    ("measure", "http://127.0.0.1:9", "--token-file", "PIPE"),
    ("measure", "http://127.0.0.1:9", "--basic-auth-file", "PIPE"),
    ("tier", "verify", "file:///tmp", "--key-file", "PIPE"),
]


@contextmanager
def _writing(pipe: Path, content: bytes, after_seconds: float = 0.0) -> Iterator[None]:
    def write() -> None:
        time.sleep(after_seconds)
        with suppress(BrokenPipeError), pipe.open("wb") as stream:
            for at in range(0, len(content), 50_000):
                stream.write(content[at : at + 50_000])

    thread = Thread(target=write, daemon=True)
    thread.start()
    yield
    thread.join(10)
    assert not thread.is_alive()


def _words(words: tuple[str, ...], pipe: Path, file: Path) -> list[str]:
    return [word.replace("PIPE", str(pipe)).replace("FILE", str(file)) for word in words]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A named pipe and a page of metrics."""
    pipe, page = tmp_path / "pipe", tmp_path / "page.prom"
    os.mkfifo(pipe)
    page.write_bytes(_PAGE)
    return pipe, page


@pytest.mark.parametrize("words", [*_COMMANDS, *_MORE], ids=" ".join)
def test_nobody_writes(
    warmset: Callable[..., Any],
    places: tuple[Path, Path],
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(opening, "WRITER_SECONDS", 0.05)
    ran = warmset(*_words(words, *places))
    assert (ran.code, ran.out) == (2, "")
    assert f"`{places[0]}` is a pipe, and nobody writes to it\n\nhint: " in ran.err


@pytest.mark.parametrize(("words", "content"), _COMMANDS.items(), ids=[" ".join(w) for w in _COMMANDS])
def test_somebody_writes(
    warmset: Callable[..., Any],
    places: tuple[Path, Path],
    words: tuple[str, ...],
    content: bytes,
    tmp_path: Path,
) -> None:
    """The answer is that of a file with the same content, also where the writer comes a little later."""
    pipe, page = places
    saved = tmp_path / "same"
    saved.write_bytes(content)
    of_file = warmset(*_words(words, saved, page), "-o", "json")
    with _writing(pipe, content, after_seconds=0.3):
        of_pipe = warmset(*_words(words, pipe, page), "-o", "json")
    assert of_pipe.code == of_file.code
    assert of_file.out
    assert of_pipe.out.replace(str(pipe), "X") == of_file.out.replace(str(saved), "X")


@pytest.mark.parametrize(
    ("command", "content"),
    [
        ("measure <(cat FILE)", _PAGE),
        ("check <(cat FILE)", _POOL),
        ("curve <(cat FILE)", TRACE),
        ("curve <(sleep 1; cat FILE)", TRACE),
        ("curve /dev/stdin < FILE", TRACE),
        # The writer has gone, and what it wrote waits in the pipe.
        ("measure /dev/stdin < <(cat FILE; exec >&-)", _PAGE),
        ("measure /dev/fd/7 7< <(cat FILE)", _PAGE),
        ('trace info /dev/stdin <<< "$(cat FILE)"', TRACE),
    ],
)
def test_process_substitution(tmp_path: Path, command: str, content: bytes) -> None:
    file = tmp_path / "content"
    file.write_bytes(content)
    ran = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m warmset {command.replace('FILE', str(file))}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, "error" in ran.stderr) == (0, False)
    assert ran.stdout


def test_a_writer_may_take_longer_than_its_start(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "WRITER_SECONDS", 0.3)
    with places[0].open("r+b", buffering=0) as held:
        Thread(target=lambda: (time.sleep(0.8), held.write(b"late")), daemon=True).start()
        with opening.open_input(places[0]) as stream:
            assert stream.read(4) == b"late"


def test_a_trace_that_does_not_end() -> None:
    ran = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m warmset trace info --max-size 4MiB <(yes '{{}}')"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "brings more than 4.00 MiB" in ran.stderr


def test_nothing_is_left_behind(
    warmset: Callable[..., Any], places: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    (tmp_path / "kept").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "kept"))
    with _writing(places[0], TRACE):
        assert warmset("curve", places[0]).code == 0
    assert list((tmp_path / "kept").iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with _writing(places[0], TRACE):
        assert warmset("curve", places[0]).code == 2


def test_a_named_pipe_as_standard_input_may_have_lost_its_writer(tmp_path: Path) -> None:
    pipe, page = tmp_path / "pipe", tmp_path / "page"
    os.mkfifo(pipe)
    page.write_bytes(_PAGE)
    with pipe.open("r+b", buffering=0) as both:  # a reader and a writer: nobody waits
        os.set_blocking(both.fileno(), False)
        assert both.write(_PAGE[:4000].rpartition(b"\n")[0] + b"\n")
        reader = os.open(pipe, os.O_RDONLY)
    ran = subprocess.run(
        [sys.executable, "-m", "warmset", "measure", "/dev/stdin"],
        stdin=reader,
        capture_output=True,
        text=True,
        timeout=60,
    )
    os.close(reader)
    assert "nobody writes" not in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("then", ["gone", "file"])
def test_a_pipe_that_becomes_something_else_is_given_up(
    warmset: Callable[..., Any], places: tuple[Path, Path], then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, _ = places
    monkeypatch.setattr(opening, "WRITER_SECONDS", 0.5)

    def change() -> None:
        time.sleep(0.1)
        pipe.rename(pipe.with_name("elsewhere"))
        if then == "file":
            pipe.write_bytes(b"x")

    thread = Thread(target=change)
    thread.start()
    began = time.monotonic()
    ran = warmset("measure", str(pipe))
    thread.join()
    assert ran.code == 2
    assert "nobody writes to it" in ran.err
    assert time.monotonic() - began < 10
    # What still waits there is let go.
    with suppress(OSError):
        os.close(os.open(pipe.with_name("elsewhere"), os.O_WRONLY | os.O_NONBLOCK))
