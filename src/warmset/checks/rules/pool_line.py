"""SGLang's pin-budget line, which is no size of the host pool."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule

_BUDGET = re.compile(r"Pin budget: 0 tokens")
_ALLOCATED = re.compile(r"Allocating (?P<size>\d+(?:\.\d+)?) GB host memory")


def check(case: Case) -> Iterator[Answer]:
    """The line with what was really allocated beside it."""
    found = case.log.search(_BUDGET) if case.log is not None else None
    if found is None or case.log is None:
        return
    allocated = case.log.search(_ALLOCATED)
    proof = f"; {allocated[0]['size']} GB of host memory were allocated" if allocated is not None else ""
    yield Hit(f"this line alone does not show that the host pool is empty{proof}", found[1], confidence="low")


RULE = Rule(
    "pool-line",
    "note",
    "A budget of 0 is not a pool of 0.",
    "SGLang may log `Pin budget: 0 tokens (ratio=0.000)` beside a host pool that was allocated. The line is no "
    "evidence "
    "about the size of the host pool; `Allocating … GB host memory` is.",
    "Pin budget: 0 tokens (ratio=0.000)",
    "Allocating 105.60 GB host memory",
    "SGLang 0.5",
    "SGLang issue 21880",
    check,
)
