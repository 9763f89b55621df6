"""The contract that every command shares: exit codes, streams, words of an error."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from warmset.cli import main as main_module
from warmset.cli.main import COMMANDS


def test_help_leads_with_what_it_is_and_lists_every_command(warmset: Callable) -> None:
    ran = warmset("--help")
    assert ran.code == 0
    assert all(name in ran.out for name in COMMANDS)
    assert ran.err == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(warmset: Callable, name: str) -> None:
    ran = warmset(name, "--help")
    assert ran.code == 0
    assert "Example" in ran.out or "Commands:" in ran.out
    assert f"warmset {name}" in ran.out


def test_an_unknown_command_offers_the_nearest(warmset: Callable) -> None:
    ran = warmset("plam")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: unknown command `plam`\n\nhint: did you mean `plan`?")


def test_an_unknown_option_is_bad_usage(warmset: Callable) -> None:
    ran = warmset("plan", "--no-such-option")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: unknown option `--no-such-option`\n\nhint: ")
    assert "see `warmset plan --help`" in ran.err


def test_a_bug_is_exit_70_without_a_traceback(warmset: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise ZeroDivisionError("seven")

    monkeypatch.setattr(main_module.cli, "main", broken)
    ran = warmset("plan")
    assert ran.code == 70
    assert ran.err.startswith("error: internal error: ZeroDivisionError: seven")
    assert "Traceback" not in ran.err


def test_an_interrupt_is_exit_130(warmset: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module.cli, "main", interrupted)
    assert warmset("plan").code == 130


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(warmset: Callable, shell: str) -> None:
    ran = warmset("completion", shell)
    assert ran.code == 0
    assert "_WARMSET_COMPLETE" in ran.out


def test_nothing_heavy_is_imported_for_help() -> None:
    heavy = ["numpy", "numba", "rich", "pydantic", "yaml", "httpx", "pyarrow", "tokenizers", "vllm", "torch"]
    code = (
        "import sys; from warmset.cli.main import main; main(['--help']);"
        f"print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stderr.strip() == "[]"
