"""Lines of a log that say what went wrong, as a table."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from warmset.checks.case import Case
from warmset.checks.findings import SEVERITIES, Answer, Hit, Rule, Severity


@dataclass(frozen=True, slots=True)
class LogLine:
    """One kind of line: what it looks like, what it means, what to do."""

    pattern: re.Pattern[str]
    severity: Severity
    message: str
    fix: str
    source: str


def check(case: Case) -> Iterator[Answer]:
    """The first line of every kind."""
    log = case.log
    if log is None:
        return
    for kind in lines():
        found = log.search(kind.pattern)
        if found is not None:
            match, word = found
            names = {name: text for name, text in match.groupdict().items() if text}
            yield Hit(kind.message.format_map({"name": "", **names}), word, kind.severity, kind.fix)


@cache
def lines() -> tuple[LogLine, ...]:
    """The table."""
    path = files("warmset.checks") / "data" / "log_lines.csv"
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    return tuple(
        LogLine(re.compile(r["pattern"]), _severity(r["severity"]), r["message"], r["fix"], r["source"])
        for r in rows
    )


def _severity(text: str) -> Severity:
    return next(severity for severity in SEVERITIES if severity == text)


RULE = Rule(
    "log-failure",
    "error",
    "A line of the log says what went wrong.",
    "Servers often fail far from the cause: a missing connector is a traceback, too much pinned memory is a "
    "leaked object. Each row of warmset/checks/data/log_lines.csv holds a line as servers print it, what it "
    "means, and what to do.",
    "Unsupported connector type: LMCacheConnector",
    "a log without such a line",
    "by row",
    "the reports named in the table",
    check,
)
