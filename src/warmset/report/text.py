"""Writes a document for a terminal, and for a pipe (never cut to a terminal's width there)."""

import os
import sys
from typing import TextIO

from rich.cells import cell_len
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
_INDENT, _GAP = 2, 2


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
            table, width = _table(out, block), out.width
            # Wider than the terminal is better than without its end.
            needed = sum(c.width or 0 for c in table.columns) + _GAP * len(table.columns) + _INDENT
            out.width = max(width, needed)
            out.print(_indented(table))
            out.width = width
        case Code(text):
            # A command that is wrapped can no longer be pasted.
            for line in text.splitlines():
                out.print(Text("  " + visible(line)), soft_wrap=True)


def _indented(block: Text | RichTable) -> Padding:
    """Two blanks before every line, wrapped ones too."""
    return Padding(block, (0, 0, 0, _INDENT))


def _table(out: Console, block: Table) -> RichTable:
    table = RichTable(box=None, padding=(0, _GAP, 0, 0), header_style="bold", pad_edge=False)
    for index, (header, width) in enumerate(
        zip(block.headers, _widths(block, out.width - _INDENT), strict=True)
    ):
        table.add_column(
            Text(visible(header).upper()),
            justify="right" if index in block.right else "left",
            overflow="fold",
            width=width,
        )
    for row in block.rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


def _widths(block: Table, room: int) -> list[int]:
    """Widths of columns that fit `room` if they can without breaking a word or a number: the terminal breaks what is
    left. Headers give way first, then the widest column.
    """
    columns = list(zip(block.headers, *block.rows, strict=True))
    cells = [max((cell_len(visible(c)) for c in column[1:]), default=0) for column in columns]
    words = [max((_word(c) for c in column[1:]), default=0) for column in columns]
    widths = [max(cell_len(column[0]), cell) for column, cell in zip(columns, cells, strict=True)]
    least = [
        max(_word(column[0]), cell if i in block.right else word)
        for i, (column, cell, word) in enumerate(zip(columns, cells, words, strict=True))
    ]
    for bounds in ([max(low, cell) for low, cell in zip(least, cells, strict=True)], least):
        while (over := sum(widths) + _GAP * (len(widths) - 1) - room) > 0:
            slack = [width - low for width, low in zip(widths, bounds, strict=True)]
            if max(slack, default=0) <= 0:
                break
            at = max((i for i in range(len(widths)) if slack[i] > 0), key=lambda i: widths[i])
            widths[at] -= min(over, slack[at], max(1, widths[at] // 8))
    return widths


def _word(text: str) -> int:
    return max((cell_len(word) for word in visible(text).split()), default=0)
