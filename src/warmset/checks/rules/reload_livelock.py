"""One request that is looked up again and again."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule

# A request is looked up once, or a few times while it waits; no healthy log repeats it a hundred times.
_MANY = 100
_SOME = 20


def check(case: Case) -> Iterator[Answer]:
    """The most repeated request line of the log."""
    log = case.log
    if log is None or log.repeated is None or log.repeated[0] < _SOME:
        return
    count, word = log.repeated
    if "hit" not in word.value.lower() and "load" not in word.value.lower() and count < _MANY:
        return
    yield Hit(
        (
            f"the same request is scheduled {count} times without progress: the engine is in a loop, this is not a "
            f"cold tier"
        ),
        word,
        fix="a newer LMCache; a larger device pool avoids it",
        confidence="high" if count >= _MANY else "medium",
    )


RULE = Rule(
    "reload-livelock",
    "error",
    "A request is scheduled over and over.",
    "When the device pool is full and a partial load is negative, older schedulers try the same request every few "
    "milliseconds and never run it. The log repeats one request line many times a second.",
    "Reqid: 7, Total tokens 40072, LMCache hit tokens: 32768, need to load: -64   (every 12 ms)",
    "each request logged once",
    "LMCache 0.3",
    "LMCache issue 2106",
    check,
)
