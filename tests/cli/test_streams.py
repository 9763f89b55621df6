"""What the shell gives a command: closed, full and narrow streams, encodings, and text that would move the cursor."""

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

_PLAN = (
    sys.executable,
    "-m",
    "warmset",
    "plan",
    "llama-3.1-8b",
    "--hbm-kv",
    "28",
    "--sessions",
    "9",
    "--context",
    "1k",
)


def _shell(redirection: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirection}', "sh", *command],
        capture_output=True,
        text=True,
        encoding=env.get("PYTHONIOENCODING", "utf-8"),
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_closed_standard_output_is_said_and_not_taken_for_done(form: str) -> None:
    ran = _shell(">&-", *_PLAN, "-o", form)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: standard output is closed\n\nhint: ")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("words", [(), ("-o", "json"), ("--help",)])
def test_a_full_disk_is_no_bug(words: tuple[str, ...]) -> None:
    ran = _shell("> /dev/full", *_PLAN, *words)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: cannot write the output: no space left on device\n\nhint: ")
    assert ran.stderr.count("\n") == 3


def test_a_reader_that_goes_away_is_no_error() -> None:
    ran = _shell("| head -1", *_PLAN)
    assert (ran.returncode, ran.stderr, ran.stdout.count("\n")) == (0, "", 1)


def test_a_closed_standard_input_is_empty() -> None:
    ran = _shell("<&-", sys.executable, "-m", "warmset", "check", "-")
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: nothing to check")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_an_old_encoding_stops_no_answer(encoding: str) -> None:
    ran = _shell("", *_PLAN, PYTHONIOENCODING=encoding)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Leave offload off")


def test_control_characters_are_written_out(warmset: Callable) -> None:
    ran = warmset("plan", "\x1b[31mred\r", "--gpu", "h100", "--sessions", "1", "--context", "1k")
    assert ran.err.startswith("error: unknown model `\\x1b[31mred\\r`")
    ran = warmset("check", "--", "vllm", "serve", "\x1b[2Jm\udcff", "--cpu-offload-gb", "4")
    assert "\x1b" not in ran.out
    assert "\\x1b[2Jm\\udcff" in ran.out


@pytest.mark.parametrize("words", [("--gpu", "x" * 5000), ("--context", "9" * 5000), ("--log", "y" * 5000)])
def test_a_long_value_is_cut_in_the_message(warmset: Callable, words: tuple[str, str]) -> None:
    ran = warmset("plan", "llama-3.1-8b", "--sessions", "1", "--context", "1k", *words)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err) < 1000
    assert "…" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plan", "--sessions", "abc"), "`abc` is not a whole number"),
        (("check", "--gpus", "abc", "x"), "`abc` is not a whole number"),
        (("check", "--gpus", "-1", "x"), "`-1` is not between 1 and 4096"),
        (("curve", "x", "--tp", "0"), "`0` is below 1"),
        (("tier", "bench", "file:///x", "--prefill-tps", "0"), "`0.0` is not above 0"),
        (("plan", "--prefill-tps", "fast"), "`fast` is not a number"),
    ],
)
def test_bad_numbers_are_named_in_plain_words(warmset: Callable, words: tuple[str, ...], said: str) -> None:
    ran = warmset(*words)
    assert (ran.code, ran.out) == (2, "")
    assert re.match(
        r"error: invalid value for `--[a-z-]+`: " + re.escape(said) + r"\n\nhint: see `warmset ", ran.err
    )


@pytest.mark.parametrize(
    ("words", "said", "hinted"),
    [
        ((), "no command is given", "name one: plan, footprint"),
        (("tier",), "no command is given", "name one: bench, doctor, gc"),
        (
            ("trace", "generate"),
            "missing argument: one of `chat`, `agent`, `rag`, `noreuse`",
            "see `warmset trace",
        ),
        (("check", "--explain"), "option `--explain` requires an argument", "see `warmset check --help`"),
    ],
)
def test_what_is_missing_is_named(warmset: Callable, words: tuple[str, ...], said: str, hinted: str) -> None:
    ran = warmset(*words)
    if ran.code == 0:
        pytest.skip("older click shows the help of a group")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {said}\n\nhint: {hinted}")


def test_a_missing_option_says_what_it_is(warmset: Callable) -> None:
    ran = warmset("launch", "llama-3.1-8b")
    assert ran.code == 2
    assert ran.err.startswith(
        "error: missing option `--tier`\n\nhint: add `--tier SIZE`: Host tier per replica"
    )
