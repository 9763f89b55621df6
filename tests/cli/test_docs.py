"""What the documentation says to type exists, and what it says comes out does."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from warmset.cli.main import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Commands that need nothing but the package; the others are only parsed, with every option they name.
OFFLINE = ("plan", "footprint", "launch", "completion")


def _commands(page: Path) -> Iterator[list[str]]:
    for block in re.findall(
        r"^```(?:shell|console|sh|bash)?\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
    ):
        for line in block.replace("\\\n", " ").splitlines():
            text = line.strip().removeprefix("$ ")
            if text.startswith("warmset ") and "…" not in text:
                words = shlex.split(text, comments=True)
                # Up to a pipe or a redirection: those are the shell's.
                cut = next((i for i, w in enumerate(words) if w in ("|", ">", ">>", "&&", "2>")), len(words))
                yield words[1:cut]


EXAMPLES = [
    pytest.param(words, id=f"{page.relative_to(ROOT)}: {' '.join(words)[:70]}")
    for page in PAGES
    for words in _commands(page)
]


@pytest.mark.parametrize("words", EXAMPLES)
def test_an_example_parses(words: list[str]) -> None:
    command: click.Command = cli
    context = cli.make_context("warmset", [], resilient_parsing=True)
    arguments = list(words)
    while isinstance(command, click.Group):
        found = command.get_command(context, arguments.pop(0))
        assert found is not None, words
        command = found
    if "--help" not in arguments:
        try:
            command.make_context(words[0], arguments, parent=context)
        except click.BadParameter as error:
            # A file that the reader would have.
            assert "does not exist" in error.format_message(), error


@pytest.mark.parametrize("words", [p for p in EXAMPLES if p.values[0][0] in OFFLINE])
def test_an_offline_example_runs(words: list[str], warmset: Callable, tmp_path: Path) -> None:
    if any("://" in w or w.endswith((".prom", ".log", ".gz", ".json")) for w in words):
        pytest.skip("needs a file or a server of the reader's")
    ran = warmset(*words)
    assert ran.code == 0, ran.err
    assert ran.out


def test_the_readme_shows_what_the_demo_prints(warmset: Callable) -> None:
    text = (ROOT / "README.md").read_text()
    shown = re.search(r"<!-- demo -->\n```\n(.*?)```\n<!-- /demo -->", text, re.DOTALL)
    assert shown is not None
    makefile = (ROOT / "Makefile").read_text()
    line = re.search(r"^demo:.*\n\t\$\(BIN\)/warmset (.*)$", makefile, re.MULTILINE)
    assert line is not None
    assert shown[1] == warmset(*shlex.split(line[1])).out


def test_every_command_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    missing = [name for name in COMMANDS if f"warmset {name}" not in text]
    assert missing == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in [*PAGES, ROOT / "CONTRIBUTING.md"]
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
