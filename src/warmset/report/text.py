"""Writes a document for a terminal, and for a pipe (never cut to a terminal's width there)."""

import os
import sys
from typing import TextIO

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from warmset.report.document import Block, Bullets, Code, Document, Facts, Line, Table, Tone
from warmset.report.visible import visible

_STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "dim": "dim",
    "strong": "bold",
}
_PIPE_WIDTH = 10_000
# A narrower terminal breaks lines itself: columns of three letters help nobody.
_LEAST_WIDTH = 60


def console(stream: TextIO, color: str = "auto") -> Console:
    """A console on `stream`: `color` is `auto`, `always` or `never`; NO_COLOR wins over `auto`."""
    tty = stream.isatty()
    forced = True if color == "always" else None
    plain = color == "never" or (color == "auto" and bool(os.environ.get("NO_COLOR")))
    return Console(
        file=stream,
        force_terminal=forced,
        no_color=plain,
        highlight=False,
        width=None if tty else _PIPE_WIDTH,
        soft_wrap=not tty,
    )


def write_text(document: Document, stream: TextIO | None = None, color: str = "auto") -> None:
    """Write `document` to `stream` (standard output if not given)."""
    target = stream or sys.stdout
    out = console(target, color)
    out.width = max(out.width, _LEAST_WIDTH)
    with out.capture() as captured:
        _write(out, document)
    # Tables pad their last column; nobody wants that in a file or a diff.
    target.write("".join(line.rstrip(" ") + "\n" for line in captured.get().splitlines()))


def _write(out: Console, document: Document) -> None:
    headline = document.headline
    out.print(Text(visible(headline.text), style=f"bold {_STYLES[headline.tone]}".strip()))
    for section in document.sections:
        out.print()
        if section.title:
            out.print(Text(visible(section.title), style="bold"))
        for block in section.blocks:
            _write_block(out, block)


def _write_block(out: Console, block: Block) -> None:
    match block:
        case Line(text, tone):
            out.print(_indented(Text(visible(text), style=_STYLES[tone] if out.is_terminal else "")))
        case Bullets(items):
            grid = RichTable.grid(padding=(0, 1))
            for item in items:
                grid.add_row("-", Text(visible(item)))
            out.print(_indented(grid))
        case Facts(rows):
            grid = RichTable.grid(padding=(0, 2))
            for name, value, remark in rows:
                grid.add_row(Text(visible(name)), Text(visible(value)), Text(visible(remark), style="dim"))
            out.print(_indented(grid))
        case Table():
            out.print(_indented(_table(block)))
        case Code(text):
            # A command that is wrapped can no longer be pasted.
            for line in text.splitlines():
                out.print(Text("  " + visible(line)), soft_wrap=True)


def _indented(block: Text | RichTable) -> Padding:
    """Two blanks before every line, wrapped ones too."""
    return Padding(block, (0, 0, 0, 2))


def _table(block: Table) -> RichTable:
    table = RichTable(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for index, header in enumerate(block.headers):
        table.add_column(
            Text(visible(header).upper()),
            justify="right" if index in block.right else "left",
            overflow="fold",
        )
    for row in block.rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table
