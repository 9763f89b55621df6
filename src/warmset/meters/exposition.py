"""Reads Prometheus text: the classic format (0.0.4, 1.0.0 with quoted names) and OpenMetrics.

One regular expression reads almost every line; what it cannot (quoted names, odd spacing, exemplars) goes through
a tokenizer. Both are linear in the length of the line, so hostile text costs no more than its size.
"""

import gc
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import NamedTuple, ParamSpec

from warmset.errors import InputError
from warmset.meters.whole import SHOWN, lines, refuse_cut, refuse_other_documents

Labels = tuple[tuple[str, str], ...]
P = ParamSpec("P")

# A server has a few hundred; each costs memory and time of its own.
MOST_NAMES = 10_000
# An engine has a few hundred: this is for thousands of engines.
MOST_LABEL_SETS = 2_000_000
# The longest are of information metrics: a few thousand characters.
MOST_LINE = 2**18


class Sample(NamedTuple):
    """One series at one moment: labels sorted by name, and the value as written."""

    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Exposition:
    """What one page of metrics says.

    Attributes:
        samples: by name as exposed (`x_total`, `x_bucket`), in page order, without exact repetitions.
        types: by family name as in the TYPE line.
        time_seconds: the newest timestamp on the page, None where it has none (the usual case).
        notes: what was odd and could be mended.
    """

    samples: dict[str, list[Sample]]
    types: dict[str, str]
    time_seconds: float | None = None
    notes: tuple[str, ...] = ()


_LABELS = r'(?:[a-zA-Z_][a-zA-Z0-9_]*+="[^"\\\n]*+(?:\\[\\n"][^"\\\n]*+)*+"(?:,|(?=\})))*+'
_LINE = re.compile(
    rf"([a-zA-Z_:][a-zA-Z0-9_:]*+)(?:\{{({_LABELS})\}})?[ \t]++([0-9a-zA-Z.+-]++)(?:[ \t]++(-?[0-9.eE+-]++))?[ \t]*+\r?"
)
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)="([^"\\]*+(?:\\.[^"\\]*+)*+)"')
_PLAIN_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*+)="([^"\\\n]*+)')
_TOKEN = re.compile(r'\s*+(?:("(?:[^"\\\n]|\\.)*+")|([a-zA-Z_:][a-zA-Z0-9_:]*+)|([{},=]))')
_NUMBER = re.compile(r"[0-9a-zA-Z.+-]++")
_ESCAPE = re.compile(r"\\(.)")
_TYPES = frozenset(
    ["counter", "gauge", "histogram", "summary", "untyped", "unknown", "info", "stateset", "gaugehistogram"]
)


def _without_collection(function: Callable[P, Exposition]) -> Callable[P, Exposition]:
    """Run without the cyclic garbage collector: a large page is many small objects and no cycles, and it would look at
    them over and over."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Exposition:
        enabled = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if enabled:
                gc.enable()

    return run


@_without_collection
def parse(text: str, wanted: Callable[[str], bool] | None = None) -> Exposition:
    """Read a page; samples whose name `wanted` refuses are checked for form and dropped.

    Raises InputError for text that is not an exposition (an HTML page, for one), for a malformed or cut line with
    its number, for one series with two values, and for an OpenMetrics page without its end mark.
    """
    refuse_other_documents(text)
    samples: dict[str, list[Sample]] = {}
    types: dict[str, str] = {}
    newest: float | None = None
    # One tuple per distinct set of labels, so that equal sets are the same object; keyed by their text as well.
    sets: dict[Labels, Labels] = {(): ()}
    by_text: dict[str | None, Labels] = {None: (), "": ()}
    pairs: dict[str, tuple[str, str]] = {}
    unknown: list[Sample] = []
    rows_of: dict[str, list[Sample] | None] = {}
    match_line, new, ended = _LINE.fullmatch, tuple.__new__, False
    for number, line in enumerate(lines(text.removeprefix("\ufeff")), 1):
        if not line:
            continue
        # Almost every line repeats a name and a set of labels that were checked before: only its value is new.
        head, brace, tail = line.rpartition("} ")
        if brace:
            name, _, raw = head.partition("{")
        else:
            name, _, tail = line.partition(" ")
            raw = None
        rows = rows_of.get(name, unknown)
        labels = by_text.get(raw)
        if labels is None and raw is not None and rows is not unknown and len(raw) <= MOST_LINE:
            labels = _plain_labels(raw, pairs)
            if labels is not None:
                labels = by_text[raw] = sets.setdefault(labels, labels)
                if len(by_text) > MOST_LABEL_SETS:
                    raise _too_many_sets(number)
        if rows is not unknown and labels is not None and tail.isascii() and "_" not in tail:
            try:
                value = float(tail)
            except ValueError:
                pass
            else:
                if ended:
                    raise _after_end(number)
                if rows is not None:
                    rows.append(new(Sample, (labels, value)))
                continue
        if len(line) > MOST_LINE:
            raise _malformed(line, number, f"has {len(line):,} characters")
        match = match_line(line)
        if match is not None:
            name, raw, value_text, stamp = match.groups()
            labels = by_text.get(raw)
            if labels is None:
                labels = _canonical(_PAIR.findall(raw), number)
                labels = by_text[raw] = sets.setdefault(labels, labels)
                if len(by_text) > MOST_LABEL_SETS:
                    raise _too_many_sets(number)
        elif line.isspace():
            continue
        elif line.lstrip()[0] == "#":
            ended = _comment(line, types, number) or ended
            continue
        else:
            name, labels, value_text, stamp = _slow(line, number)
            labels = sets.setdefault(labels, labels)
        if ended:
            raise _after_end(number)
        try:
            value = float(value_text)
        except ValueError:
            value = _odd_number(value_text, line, number)
        if stamp is not None:
            seconds = _odd_number(stamp, line, number)
            newest = seconds if newest is None else max(newest, seconds)
        rows = rows_of.get(name, unknown)
        if rows is unknown:
            rows = rows_of[name] = samples.setdefault(name, []) if wanted is None or wanted(name) else None
            if len(samples) > MOST_NAMES:
                raise InputError(
                    f"more than {MOST_NAMES:,} different metrics by line {number}, such as `{name[:80]}`",
                    hint="no server has so many; scrape the engine's own `/metrics`",
                )
        if rows is not None:
            rows.append(new(Sample, (labels, value)))
    notes = _mend(samples)
    refuse_cut(text, samples, ended)
    if newest is not None and not ended:
        newest /= 1000  # the classic format counts milliseconds, OpenMetrics seconds
    return Exposition(samples, types, newest, notes)


def _comment(line: str, types: dict[str, str], number: int) -> bool:
    """Take in a comment line; True for the end mark of OpenMetrics."""
    words = line.split(None, 3)
    if len(words) == 2 and words[1] == "EOF":
        return True
    if len(words) >= 3 and words[1] == "TYPE":
        rest = line.split("TYPE", 1)[1].strip()
        name, _, kind = rest.rpartition(" ")
        name, kind = name.strip(), kind.strip().lower()
        if kind not in _TYPES:
            raise _malformed(line, number, "has an unknown type")
        types[_unquote(name) if name.startswith('"') else name] = kind
    return False


def _slow(line: str, number: int) -> tuple[str, Labels, str, str | None]:
    """A line that the fast expression refused, token by token."""
    position, name = 0, None
    pairs: list[tuple[str, str]] = []
    head = re.match(r"[ \t]*+([a-zA-Z_:][a-zA-Z0-9_:]*+)?([ \t]*+\{)?", line)
    assert head is not None
    name, position = head[1], head.end()
    if head[2]:
        tokens: list[tuple[str, str]] = []
        while True:
            token = _TOKEN.match(line, position)
            if token is None:
                raise _malformed(line, number)
            position = token.end()
            kind = "string" if token[1] else "word" if token[2] else "sign"
            tokens.append((kind, token[1] or token[2] or token[3]))
            if tokens[-1] == ("sign", "}"):
                break
        for part in _split_labels(tokens[:-1], line, number):
            if len(part) == 1 and part[0][0] == "string" and name is None and not pairs:
                name = _unquote(part[0][1])
            elif (
                len(part) == 3
                and part[1] == ("sign", "=")
                and part[2][0] == "string"
                and part[0][0] != "sign"
            ):
                key = part[0][1]
                pairs.append((_unquote(key) if key.startswith('"') else key, part[2][1][1:-1]))
            else:
                raise _malformed(line, number)
    rest = line[position:].split("#", 1)[0].split()  # what follows `#` is an exemplar
    if not name or len(rest) not in (1, 2) or not re.match(r"[ \t]", line[position : position + 1] or " "):
        raise _malformed(line, number)
    if not all(_NUMBER.fullmatch(text) for text in rest):  # Python's float takes more than the format does
        raise _malformed(line, number)
    return name, _canonical(pairs, number), rest[0], rest[1] if len(rest) == 2 else None


def _plain_labels(raw: str, known: dict[str, tuple[str, str]]) -> Labels | None:
    """Labels without escapes, pair by pair through those already `known`; None leaves them to the expressions."""
    if "\\" in raw:
        return None
    parts = raw.split('",')
    last = parts.pop()
    if last:
        if not last.endswith('"'):
            return None
        parts.append(last[:-1])
    found = []
    for part in parts:
        pair = known.get(part)
        if pair is None:
            match = _PLAIN_PAIR.fullmatch(part)
            if match is None:
                return None
            pair = known[part] = (match[1], match[2])
        found.append(pair)
    found.sort()
    return tuple(found) if len(dict(found)) == len(found) else None


def _split_labels(tokens: list[tuple[str, str]], line: str, number: int) -> list[list[tuple[str, str]]]:
    parts: list[list[tuple[str, str]]] = [[]]
    for token in tokens:
        if token == ("sign", ","):
            if not parts[-1]:
                raise _malformed(line, number)
            parts.append([])
        else:
            parts[-1].append(token)
    return parts[:-1] if not parts[-1] else parts


def _canonical(pairs: list[tuple[str, str]], number: int) -> Labels:
    labels = tuple(sorted((name, _unescape(value)) for name, value in pairs))
    if len({name for name, _ in labels}) != len(labels):
        raise InputError(f"line {number} names one label twice", hint="this is not a valid page of metrics")
    return labels


def _unquote(text: str) -> str:
    return _unescape(text[1:-1])


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], text)


def _odd_number(text: str, line: str, number: int) -> float:
    """A number that is not plain decimal: Go also writes hexadecimal floats."""
    try:
        return float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        raise _malformed(line, number, "has no number for a value") from None


def _too_many_sets(number: int) -> InputError:
    return InputError(
        f"more than {MOST_LABEL_SETS:,} different sets of labels by line {number}",
        hint="save the metrics of fewer servers per file",
    )


def _after_end(number: int) -> InputError:
    return InputError(f"line {number} stands after `# EOF`", hint="save one page of metrics per file")


def _malformed(line: str, number: int, what: str = "is not a sample") -> InputError:
    shown = line[:SHOWN] + ("…" if len(line) > SHOWN else "")
    return InputError(
        f"line {number} {what}: `{shown}`",
        hint="the page is damaged or cut short; fetch it again with `warmset snapshot URL`",
    )


def _mend(samples: dict[str, list[Sample]]) -> tuple[str, ...]:
    """Drop exact repetitions of a series, and refuse contradictory ones."""
    notes = []
    for name, rows in samples.items():
        if len({id(labels) for labels, _ in rows}) == len(rows):  # equal label sets are one object
            continue
        values = dict(rows)
        for labels, value in rows:
            if value != values[labels] and not (value != value and values[labels] != values[labels]):
                raise InputError(
                    f"series `{name}` stands twice on the page, with the values {value:g} and {values[labels]:g}",
                    hint="two exporters write to one page; give the address of each server instead",
                )
        samples[name] = [Sample(labels, value) for labels, value in values.items()]
        notes.append(f"{name}: repeated lines are counted once")
    return tuple(notes)
