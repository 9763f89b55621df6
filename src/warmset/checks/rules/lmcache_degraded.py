"""LMCache that failed to initialise behind a healthy server."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule

_LOG = re.compile(
    r"(marked as init failed|operate in degraded mode|degraded mode \(recompute\))", re.IGNORECASE
)
_OLD = re.compile(r"--kv-transfer-config is not supported by the V1 Engine\. Falling back to V0")


def check(case: Case) -> Iterator[Answer]:
    """The lines that say so."""
    log = case.log
    if log is None:
        return
    if (found := log.search(_LOG)) is not None:
        yield Hit(
            "LMCache failed to initialise: the server recomputes everything, or stops at the first request",
            found[1],
            fix="newer LMCache and vLLM; alert on this line, /health stays green",
        )
    if (found := log.search(_OLD)) is not None:
        yield Hit(
            "this vLLM falls back to the V0 engine for any connector",
            found[1],
            "warning",
            "vLLM 0.9 or newer",
        )


RULE = Rule(
    "lmcache-degraded",
    "error",
    "LMCache is not working and the server goes on.",
    "When LMCache's engine cannot start, the connector says `degraded mode (recompute)` and the server stays "
    "healthy, or "
    "fails with an assertion at the first request and is restarted for ever.",
    "LMCacheEngine marked as init failed. System will operate in degraded mode (recompute)",
    "a log without that line",
    "vLLM 0.17 to 0.22 with LMCache 0.4.1 to 0.4.4, and others",
    "vLLM issue 44249",
    check,
)
