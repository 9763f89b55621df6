"""A document: what a report says, before anyone decides how it looks.

A report file turns one record into one `Document`; the writers beside it (text, markdown, csv) know
documents and no records.
"""

from dataclasses import dataclass, field
from typing import Literal

Tone = Literal["plain", "good", "warn", "bad", "dim", "strong"]


@dataclass(frozen=True, slots=True)
class Line:
    """One paragraph; `tone` colours it on a terminal and never carries meaning alone."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Facts:
    """Aligned name/value pairs, each with an optional remark."""

    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headers; `right` names the columns (by index) that align right."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Code:
    """Something to type or to save, printed exactly and never wrapped."""

    text: str
    language: str = "shell"


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of short statements."""

    items: tuple[str, ...]


Block = Line | Facts | Table | Code | Bullets


@dataclass(frozen=True, slots=True)
class Section:
    """A titled run of blocks."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A headline (the answer), then sections in reading order."""

    headline: Line
    sections: tuple[Section, ...] = field(default=())
