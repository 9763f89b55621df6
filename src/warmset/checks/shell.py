"""Reads shell text as words with places. Nothing is run: `$(…)` and unset variables stay unknown."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from warmset.checks.text import Text, Word

# Bounds for what variables may expand to; beyond them a word counts as unknown.
MAX_WORD = 65_536
MAX_WORDS = 4_096

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[^\s\\'\"$`;&|()<>]+")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_RESERVED = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "do",
        "while",
        "until",
        "!",
        "{",
        "}",
        "(",
        ")",
        "time",
        "fi",
        "done",
        "esac",
        "function",
    ]
)
_DECLARE = frozenset(("export", "declare", "typeset", "readonly", "local", "ENV", "set"))


@dataclass(slots=True)
class _Part:
    kind: str  # text, var, unknown
    value: str
    quoted: bool
    default: "list[_Part] | None" = None


@dataclass(slots=True)
class _Raw:
    start: int
    end: int
    parts: list[_Part]


@dataclass(slots=True)
class Heredoc:
    """The body of a here-document and the file that it is written to, if any."""

    body: Text
    target: str | None = None


@dataclass(slots=True)
class Command:
    """One simple command: its words, what was assigned on its own line, and the variables in force."""

    words: list[Word]
    inline: dict[str, Word]
    exported: dict[str, Word]
    plain: dict[str, Word]
    heredocs: list[Heredoc] = field(default_factory=list)


def commands(text: Text, env: Mapping[str, Word] | None = None) -> Iterator[Command]:
    """The simple commands of a script, in the order of the text, variables expanded where known."""
    return _Reader(text, env or {}).commands()


def split(text: Text, env: Mapping[str, Word] | None = None) -> list[Word]:
    """All words of a text as one command line (systemd's ExecStart, Dockerfile's shell form)."""
    out: list[Word] = []
    for command in commands(text, env):
        out.extend(command.words)
    return out


class _Reader:
    def __init__(self, text: Text, env: Mapping[str, Word]) -> None:
        self.text, self.s, self.n = text, text.value, len(text.value)
        self.exported: dict[str, Word] = dict(env)
        self.plain: dict[str, Word] = {}
        self.arrays: dict[str, list[Word]] = {}
        self.auto_export = False

    def commands(self) -> Iterator[Command]:
        raws: list[_Raw] = []
        heredocs: list[tuple[str, bool]] = []
        target: str | None = None
        bodies: list[Heredoc] = []
        i = 0
        while i <= self.n:
            c = self.s[i] if i < self.n else "\n"
            if c in " \t\r":
                i += 1
            elif c == "\\" and self.s[i + 1 : i + 2] == "\n":
                i += 2
            elif c == "\\" and self.s[i + 1 : i + 3] == "\r\n":
                i += 3
            elif c == "#":
                end = self.s.find("\n", i)
                i = self.n if end < 0 else end
            elif c == "\n":
                i += 1
                for delimiter, strip in heredocs:
                    body, i = self._heredoc(i, delimiter, strip)
                    bodies.append(Heredoc(body, target))
                if raws or bodies:
                    yield from self._simple(raws, bodies)
                raws, heredocs, bodies, target = [], [], [], None
            elif c in ";&|":
                if c == "&" and self.s[i + 1 : i + 2] == ">":
                    i = self._redirect(i + 1)[0]
                    continue
                i += 2 if self.s[i + 1 : i + 2] in ("&", "|", ";") else 1
                if raws and not heredocs:
                    yield from self._simple(raws, [])
                    raws = []
            elif c in "()":
                i += 1
                if c == "(" and raws and self._array_start(raws[-1]):
                    i = self._array(raws.pop(), i)
                elif raws:
                    yield from self._simple(raws, [])
                    raws = []
            elif c in "<>" or (
                c.isdigit() and self.s[i + 1 : i + 2] in ("<", ">") and self._at_word_start(i)
            ):
                i, heredoc, file = self._redirect_full(i)
                if heredoc:
                    heredocs.append(heredoc)
                target = file or target
            else:
                raw, i = self._word(i)
                if len(raws) < MAX_WORDS:
                    raws.append(raw)

    def _at_word_start(self, i: int) -> bool:
        return i == 0 or self.s[i - 1] in " \t\n;&|"

    def _redirect(self, i: int) -> tuple[int, str | None]:
        while i < self.n and self.s[i] in "<>&|":
            i += 1
        while i < self.n and self.s[i] in " \t":
            i += 1
        if i >= self.n or self.s[i] in "\n;&|()<>":
            return i, None
        raw, i = self._word(i)
        return i, "".join(p.value for p in raw.parts if p.kind == "text")

    def _redirect_full(self, i: int) -> tuple[int, tuple[str, bool] | None, str | None]:
        while i < self.n and self.s[i].isdigit():
            i += 1
        if self.s.startswith("<<<", i):
            return self._redirect(i)[0], None, None
        if self.s.startswith("<<", i):
            strip = self.s.startswith("<<-", i)
            j, name = self._redirect(i + 2 + strip)
            return j, (name or "", strip), None
        out = self.s[i] == ">"
        j, name = self._redirect(i)
        return max(j, i + 1), None, name if out else None

    def _heredoc(self, i: int, delimiter: str, strip: bool) -> tuple[Text, int]:
        at = i
        while at < self.n:
            end = self.s.find("\n", at)
            end = self.n if end < 0 else end
            line = self.s[at:end].rstrip("\r")
            if (line.lstrip("\t") if strip else line) == delimiter:
                return self._slice(i, at), end
            at = end + 1
        return self._slice(i, self.n), self.n

    def _slice(self, start: int, end: int) -> Text:
        if self.text.offsets is None:
            return Text(self.s[start:end], self.text.source, self.text.base + start)
        return Text(self.s[start:end], self.text.source, self.text.base, self.text.offsets[start:end])

    def _word(self, i: int) -> tuple[_Raw, int]:
        start, parts = i, []
        buffer: list[str] = []

        def flush(quoted: bool = False) -> None:
            if buffer or quoted:
                parts.append(_Part("text", "".join(buffer), quoted))
                buffer.clear()

        while i < self.n:
            c = self.s[i]
            if c in " \t\n\r;&|()<>":
                break
            if c == "\\":
                if self.s[i + 1 : i + 2] == "\n":
                    i += 2
                    continue
                buffer.append(self.s[i + 1 : i + 2])
                i += 2
            elif c == "'":
                flush()
                end = self.s.find("'", i + 1)
                end = self.n if end < 0 else end
                parts.append(_Part("text", self.s[i + 1 : end], True))
                i = end + 1
            elif c == '"':
                flush()
                inner, i = self._double(i + 1)
                parts.extend(inner)
            elif c in "$`":
                flush()
                part, i = self._dollar(i, quoted=False)
                parts.append(part)
            else:
                plain = _PLAIN.match(self.s, i)
                piece = plain[0] if plain is not None else c
                buffer.append(piece)
                i += len(piece)
        flush()
        if i == start:  # a character that no branch above takes; never loop on it
            i += 1
        return _Raw(start, i, parts), i

    def _double(self, i: int) -> tuple[list[_Part], int]:
        parts: list[_Part] = []
        buffer: list[str] = []
        while i < self.n and self.s[i] != '"':
            c = self.s[i]
            if c == "\\" and i + 1 < self.n:
                follow = self.s[i + 1]
                buffer.append(follow if follow in '"\\$`' else "" if follow == "\n" else c + follow)
                i += 2
            elif c in "$`":
                parts.append(_Part("text", "".join(buffer), True))
                buffer = []
                part, i = self._dollar(i, quoted=True)
                parts.append(part)
            else:
                buffer.append(c)
                i += 1
        parts.append(_Part("text", "".join(buffer), True))
        return parts, i + 1

    def _dollar(self, i: int, *, quoted: bool) -> tuple[_Part, int]:
        s = self.s
        if s[i] == "`":
            end = s.find("`", i + 1)
            end = self.n - 1 if end < 0 else end
            return _Part("unknown", s[i : end + 1], quoted), end + 1
        if s.startswith("$(", i):
            end = self._close(i + 1, "(", ")")
            return _Part("unknown", s[i:end], quoted), end
        if s.startswith("${", i):
            end = self._close(i + 1, "{", "}")
            match = _NAME.match(s, i + 2)
            if match is None:
                return _Part("unknown", s[i:end], quoted), end
            rest = s[match.end() : end - 1]
            default = None
            if rest[:2] in (":-", ":=") or rest[:1] in ("-", "="):
                plain = rest[2:] if rest[0] == ":" else rest[1:]
                default = [_Part("text", plain.strip("\"'"), quoted)] if "$" not in plain else None
            return _Part("var", match[0] + ("[@]" if rest in ("[@]", "[*]") else ""), quoted, default), end
        match = _NAME.match(s, i + 1)
        if match is not None:
            return _Part("var", match[0], quoted), match.end()
        if s[i + 1 : i + 2] and s[i + 1] in "@*#?0123456789-!$":
            return _Part("unknown", s[i : i + 2], quoted), i + 2
        if s[i + 1 : i + 2] == "'" and not quoted:
            end = s.find("'", i + 2)
            end = self.n if end < 0 else end
            return _Part("text", s[i + 2 : end].replace("\\'", "'").replace("\\n", "\n"), True), end + 1
        return _Part("text", "$", quoted), i + 1

    def _close(self, i: int, opening: str, closing: str) -> int:
        depth, quote = 0, ""
        while i < self.n:
            c = self.s[i]
            if quote:
                if c == "\\" and quote == '"':
                    i += 1
                elif c == quote:
                    quote = ""
            elif c in "'\"":
                quote = c
            elif c == "\\":
                i += 1
            elif c == opening:
                depth += 1
            elif c == closing:
                depth -= 1
                if depth == 0:
                    return i + 1
            i += 1
        return self.n

    def _array_start(self, raw: _Raw) -> bool:
        return bool(re.fullmatch(r"[A-Za-z_]\w*\+?=", self.s[raw.start : raw.end]))

    def _array(self, raw: _Raw, i: int) -> int:
        name = self.s[raw.start : raw.end].rstrip("+=")
        words: list[Word] = self.arrays.get(name, []) if self.s[raw.end - 2] == "+" else []
        while i < self.n and self.s[i] != ")":
            if self.s[i] in " \t\r\n":
                i += 1
            elif self.s[i] == "\\" and self.s[i + 1 : i + 2] == "\n":
                i += 2
            elif self.s[i] == "#":
                end = self.s.find("\n", i)
                i = self.n if end < 0 else end
            else:
                item, i = self._word(i)
                if len(words) < MAX_WORDS:
                    words.extend(self._expand(item))
        del words[MAX_WORDS:]
        self.arrays[name] = words
        return i + 1

    def _simple(self, raws: list[_Raw], heredocs: list[Heredoc]) -> Iterator[Command]:
        words: list[Word] = []
        inline: dict[str, Word] = {}
        declare = ""
        for raw in raws:
            source = self.s[raw.start : raw.end]
            match = _ASSIGN.match(source) if not words or declare else None
            if match is not None:
                value = self._value(raw, match.end())
                if match[2] == "+=" and (old := self._lookup(match[1])) is not None:
                    value = Word(
                        (old.value + value.value)[:MAX_WORD], value.text, value.start, value.end, value.known
                    )
                inline[match[1]] = value
                continue
            if not words and source in _RESERVED:
                continue
            expanded = self._expand(raw)
            if not words and expanded and expanded[0].value in _DECLARE:
                declare = expanded[0].value
            words.extend(expanded)
            if len(words) > MAX_WORDS:
                del words[MAX_WORDS:]
        if declare == "set":
            if any(w.value in ("-a", "allexport") for w in words):
                self.auto_export = True
            return
        if declare or not words:
            exports = declare in ("export", "ENV") or self.auto_export or any(w.value == "-x" for w in words)
            for name, value in inline.items():
                (self.exported if exports or name in self.exported else self.plain)[name] = value
            for each in words[1:]:
                if declare == "export" and each.value in self.plain:
                    self.exported[each.value] = self.plain.pop(each.value)
            if not heredocs:
                return
        yield Command(words, {} if declare else inline, self.exported, self.plain, heredocs)

    def _lookup(self, name: str) -> Word | None:
        return self.plain.get(name) or self.exported.get(name)

    def _value(self, raw: _Raw, skip: int) -> Word:
        """The assigned value: the raw word without its `NAME=`, never split."""
        parts, left = [], skip
        for part in raw.parts:
            if left and part.kind == "text" and not part.quoted:
                part = _Part("text", part.value[left:], False)
            left = 0
            parts.append(part)
        value, known, origin = self._join(parts)
        return Word(value, self.text, raw.start + skip, raw.end, known, origin)

    def _join(self, parts: list[_Part]) -> tuple[str, bool, Word | None]:
        out: list[str] = []
        known, origin, length = True, None, 0
        for part in parts:
            piece = part.value
            if part.kind == "unknown":
                known = False
            elif part.kind == "var":
                found = self._lookup(part.value)
                if found is not None and (found.value or part.default is None):
                    piece, known, origin = found.value, known and found.known, found
                elif part.default is not None:
                    piece = part.default[0].value
                else:
                    piece, known = f"${{{part.value}}}", False
            length += len(piece)
            if length > MAX_WORD:
                return "".join(out), False, None
            out.append(piece)
        alone = sum(1 for p in parts if p.kind != "text" or p.value) == 1
        return "".join(out), known, origin if alone else None

    def _expand(self, raw: _Raw) -> list[Word]:
        """The words that one raw word becomes: arrays and unquoted variables may give several."""
        live = [p for p in raw.parts if p.kind != "text" or p.value]
        if len(live) == 1 and live[0].kind == "var":
            part = live[0]
            name = part.value.removesuffix("[@]")
            if name in self.arrays and (part.value.endswith("[@]")):
                return list(self.arrays[name])
            found = self._lookup(name)
            if found is not None and found.known and not part.quoted:
                if not found.value.strip():
                    return []
                if any(c.isspace() for c in found.value):
                    return self._split_value(found)
        value, known, origin = self._join(raw.parts)
        return [Word(value, self.text, raw.start, raw.end, known, origin)]

    def _split_value(self, found: Word) -> list[Word]:
        """An unquoted variable splits at blanks; quotes inside it are literal to a real shell."""
        body, out = found.body, []
        for match in re.finditer(r"\S+", body.value):
            out.append(Word(match[0], body, match.start(), match.end()))
            if len(out) >= MAX_WORDS:
                break
        return out
