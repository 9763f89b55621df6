"""LMCache lines that show the device answering."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule

_LINE = re.compile(
    (
        r"Total tokens:?\s*(?P<total>\d{1,9})[^\n]{0,80}?hit(?: tokens)?:?\s*(?P<hit>\d{1,9})[^\n]{0,80}?need to "
        r"load:?\s*(?P<load>-?\d{1,9})"
    ),
    re.IGNORECASE,
)


def check(case: Case) -> Iterator[Answer]:
    """Hits against what was loaded over all requests: nearly nothing loaded means that the device had it."""
    log = case.log
    if log is None:
        return
    hits = loads = 0
    first: re.Match[str] | None = None
    for match in _LINE.finditer(log.short):
        hits += int(match["hit"])
        # A negative number is normal: the device holds more than the tier's whole chunks.
        loads += max(0, int(match["load"]))
        if int(match["hit"]) and first is None:
            first = match
    if first is None or loads > 0.05 * hits or loads == 0:
        return
    from warmset.checks.text import Word

    yield Hit(
        (
            f"{hits:,} tokens hit and {loads:,} were loaded: the device still held the rest, so the tier adds only "
            f"its overhead here"
        ),
        Word(first[0], log.source.whole(), first.start(), first.end()),
        fix="a working set larger than the device pool, or no tier",
        confidence="medium",
    )


RULE = Rule(
    "local-cache-serves",
    "note",
    "The device answers; the tier is not used.",
    "`LMCache hit tokens` counts what the tier holds, `need to load` what the device lacks of it. When nearly "
    "all hits need "
    "no load, the prefix cache of the device serves them. A negative number is no fault.",
    "Total tokens 15444, LMCache hit tokens: 15444, need to load: 3",
    "a flood larger than the device pool between repeats",
    "LMCache in-process",
    "LMCache issues 1109, 2703",
    check,
)
