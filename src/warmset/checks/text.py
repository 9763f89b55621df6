"""Where every piece of input came from: sources, spans of them, and words that remember their place."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from warmset.errors import InputError

# A manifest or script is a few kilobytes and a start-up log a few hundred; more is not one of them.
MAX_FILE_BYTES = 8 * 2**20
_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Place:
    """A spot in a file: 1-based line and column, the whole line, and the column after the spot."""

    file: str
    line: int
    column: int
    text: str
    end_column: int


@dataclass(frozen=True)
class Source:
    """One input and its whole text."""

    name: str
    text: str

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    def line_at(self, offset: int) -> int:
        """The 1-based line that holds a character."""
        from bisect import bisect_right

        return bisect_right(self._starts, offset)

    def line_text(self, line: int) -> str:
        """A line without its newline; empty beyond the ends."""
        if not 1 <= line <= len(self._starts):
            return ""
        start = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")

    def place(self, start: int, end: int) -> Place:
        """The place of a span; a span over several lines ends with its first one."""
        start = min(max(start, 0), len(self.text))
        line = self.line_at(start)
        text = self.line_text(line)
        column = start - self._starts[line - 1] + 1
        width = max(1, min(end - start, len(text) - column + 1))
        shown = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"
        return Place(self.name, line, column, shown, column + width)

    def whole(self) -> "Text":
        """The full text as a `Text`."""
        return Text(self.text, self, 0)


class NothingToCheck(InputError):
    """No server is started, configured or logged in an input, or in all of them."""


def read_source(name: str, data: bytes) -> Source:
    """Decode one input. Raises InputError for binary data, for more than MAX_FILE_BYTES, and where there is no text."""
    if len(data) > MAX_FILE_BYTES:
        raise InputError(
            f"`{name}` is larger than {MAX_FILE_BYTES >> 20} MiB",
            hint="give the manifest or script itself; of a log, the start-up part is enough (`head -n 10000`)",
        )
    if b"\0" in data:
        raise InputError(f"`{name}` is binary", hint="give a script, a manifest, an env file or a log")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"`{name}` is not UTF-8 text (byte {error.start})", hint="save the file as UTF-8"
        ) from None
    if not text.strip():
        raise NothingToCheck(
            f"nothing to check in `{name}`: it is empty",
            hint="give what starts or configures the server, or its log: `kubectl logs POD > server.log`",
        )
    return Source(name, text)


@dataclass(frozen=True, slots=True)
class Text:
    """A string taken out of a source: verbatim from `base` on, or (offsets) character by character."""

    value: str
    source: Source = field(repr=False)
    base: int
    offsets: tuple[int, ...] | None = None

    def offset(self, index: int) -> int:
        """The offset in the source of a character of `value`."""
        if self.offsets is None:
            return self.base + index
        return self.offsets[min(index, len(self.offsets) - 1)] if self.offsets else self.base

    def place(self, start: int, end: int) -> Place:
        """The place of `value[start:end]`."""
        first = self.offset(start)
        return self.source.place(first, max(first + 1, self.offset(max(start, end - 1)) + 1))


def align(source: Source, start: int, end: int, value: str) -> Text:
    """Match a value with the raw text that spelt it (escapes, folding, block indentation)."""
    raw = source.text[start:end]
    inner = raw[1:-1] if raw[:1] in "'\"" and len(raw) > 1 else raw
    if inner == value:
        return Text(value, source, start + (len(raw) != len(inner)))
    offsets: list[int] = []
    at = 0
    if raw[:1] in "|>":
        at = raw.find("\n") + 1
    elif raw[:1] in "'\"":
        at = 1
    for character in value:
        if at < len(raw) and raw[at] != character:
            if raw[at] == "\\" and at + 1 < len(raw):
                at += 1
            elif raw[at].isspace():
                if character not in " \n":
                    while at < len(raw) and raw[at].isspace():
                        at += 1
            elif raw[at] == character == "'":
                at += 1
        offsets.append(start + min(at, len(raw) - 1) if raw else start)
        at += 1
    return Text(value, source, start, tuple(offsets))


@dataclass(frozen=True)
class Word:
    """One argument or value, with the place that spelt it.

    `known` is False where part of it comes from outside the input (an unset variable, `$(…)`).
    `origin` is the assigned word when this one is nothing but a variable.
    """

    value: str
    text: Text
    start: int
    end: int
    known: bool = True
    origin: "Word | None" = field(default=None, repr=False)

    @property
    def place(self) -> Place:
        """Where the word stands."""
        return self.text.place(self.start, self.end)

    @cached_property
    def body(self) -> Text:
        """The word's value as a text of its own, for what is nested in it."""
        if self.origin is not None and self.origin.value == self.value:
            return self.origin.body
        raw = self.text.value[self.start : self.end]
        for skip in (0, 1):
            if raw[skip : len(raw) - skip] == self.value and self.text.offsets is None:
                return Text(self.value, self.text.source, self.text.base + self.start + skip)
        if self.text.value == self.value:
            return self.text
        if self.text.offsets is not None and (at := raw.find(self.value)) >= 0:
            first = self.start + at
            offsets = self.text.offsets[first : first + len(self.value)]
            return Text(self.value, self.text.source, self.text.offset(self.start), offsets)
        return self._matched(raw)

    def _matched(self, raw: str) -> Text:
        """Character by character: quotes and escapes stand in the text and not in the value."""
        at, found = 0, []
        for character in self.value:
            step = raw.find(character, at, at + 4)
            at = step if step >= 0 else min(at, max(0, len(raw) - 1))
            found.append(self.text.offset(self.start + at))
            at += 1
        return Text(self.value, self.text.source, self.text.offset(self.start), tuple(found))

    def find(self, part: str) -> Place:
        """The place of a part of the word, or of the whole word."""
        body = self.body
        at = body.value.find(part)
        return self.place if at < 0 or not part else body.place(at, at + len(part))

    def lines(self) -> Iterator[int]:
        """The source lines that the word's body covers."""
        source = self.text.source
        yield from range(
            source.line_at(self.text.offset(self.start)),
            source.line_at(self.text.offset(max(self.start, self.end - 1))) + 1,
        )


def word(text: Text) -> Word:
    """The whole of a text as one word."""
    return Word(text.value, text, 0, len(text.value))


Spot = Word | Place
