"""Rules and what they say: the records that pass between rules, the runner and the reports."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from warmset.checks.text import Place, Word

if TYPE_CHECKING:
    from warmset.checks.case import Case

Severity = Literal["error", "warning", "note"]
Confidence = Literal["high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


def at_least(severity: Severity, threshold: str) -> bool:
    """Whether a severity reaches a threshold (`never` is reached by none)."""
    return threshold in SEVERITIES and SEVERITIES.index(severity) <= SEVERITIES.index(threshold)


@dataclass(frozen=True, slots=True)
class Edit:
    """A certain correction: replace these offsets of a source by a text."""

    file: str
    start: int
    end: int
    replacement: str


def replacing(word: Word, part: str, replacement: str) -> Edit | None:
    """The edit that replaces a part of a word where it stands verbatim in its file, else None."""
    body = word.body
    at = body.value.find(part)
    if at < 0 or not part:
        return None
    start, end = body.offset(at), body.offset(at + len(part) - 1) + 1
    if body.source.text[start:end] != part or body.source.name.startswith("<std"):
        return None
    return Edit(body.source.name, start, end, replacement)


@dataclass(frozen=True, slots=True)
class Hit:
    """What a rule found. `at` is the word or place; `fix` the text to type instead."""

    message: str
    at: Word | Place
    severity: Severity | None = None
    fix: str | None = None
    confidence: Confidence = "high"
    since: str | None = None
    edit: Edit | None = None


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that a rule needed and nobody gave."""

    fact: str
    message: str


Answer = Hit | Missing
Check = Callable[["Case"], Iterator[Answer]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: its name, its usual severity, what it says and why, and the function that looks.

    `wrong` and `right` are short examples, `since` says which versions it is about, `source` where it is known from.
    """

    name: str
    severity: Severity
    summary: str
    why: str
    wrong: str
    right: str
    since: str
    source: str
    check: Check


@dataclass(frozen=True, slots=True)
class Finding:
    """A hit with its rule and place."""

    rule: str
    severity: Severity
    confidence: Confidence
    message: str
    place: Place
    fix: str | None
    since: str
    server: str
    edit: Edit | None = None


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A rule that could not be decided for a launch, and the fact that it lacks."""

    rule: str
    missing: str
    message: str
    place: Place


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A finding that a comment marks as meant, with the comment's reason."""

    finding: Finding
    reason: str


@dataclass(frozen=True, slots=True)
class Assumed:
    """Which version a launch was checked as, and where that version comes from."""

    server: str
    source: str
    place: Place


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Everything that a check says."""

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    suppressed: tuple[Suppressed, ...]
    assumed: tuple[Assumed, ...]
    lmcache: str | None
    rules_run: int
    files: int
    notes: tuple[str, ...]
    sources: tuple[tuple[str, str], ...] = ()

    @property
    def worst(self) -> Severity | None:
        """The gravest severity found, or None."""
        return next((s for s in SEVERITIES if any(f.severity == s for f in self.findings)), None)
