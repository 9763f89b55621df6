"""The reference of servers and launches says what the code does."""

import doctest
import importlib
import shlex
from pathlib import Path

import pytest

from warmset.cli.main import main
from warmset.launch import BACKENDS, TARGETS


def test_the_examples_of_the_servers_page_run(root: Path) -> None:
    result = doctest.testfile(str(root / "docs/reference/servers.md"), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0


@pytest.mark.parametrize("module", ["warmset.servers", "warmset.launch"])
def test_the_examples_of_the_packages_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted
    assert result.failed == 0


def test_the_commands_of_the_launch_page_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (root / "docs/reference/launch.md").read_text(encoding="utf-8")
    commands = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ warmset")]
    assert len(commands) >= 4
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    for name in (*BACKENDS, *TARGETS):
        assert f"`{name}`" in text
