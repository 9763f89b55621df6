"""The rule `lmcache-server-flags`: where it speaks, and where it keeps silent."""

from typing import Any

import pytest

RULE = "lmcache-server-flags"
FIRES: list[dict[str, Any]] = [
    {
        "text": "lmcache server --l1-size-gb 60",
        "severity": "error",
        "says": "`--eviction-policy`: it is required",
        "fix": "--eviction-policy LRU",
    },
    {
        "text": "lmcache server --host 0.0.0.0 --port 5555",
        "severity": "error",
        "says": "they are required",
        "fix": "--l1-size-gb 60 --eviction-policy LRU",
    },
    {
        "text": "python3 -m lmcache.v1.multiprocess.http_server --l1-size-gb 60",
        "severity": "error",
        "lmcache": "0.4.2",
    },
    {
        "text": "lmcache server --l1-size-gb 60 --eviction-policy ARC",
        "severity": "error",
        "says": "LRU, IsolatedLRU, noop",
        "lmcache": "0.5.0",
    },
    {
        "text": "lmcache server --l1-size-gb 60 --eviction-policy lru",
        "severity": "error",
        "fix": "--eviction-policy LRU",
    },
    {"text": "lmcache server --l1-size-gb 60 --eviction-policy FIFO", "severity": "warning"},
]
SILENT: list[dict[str, Any]] = [
    {"text": "lmcache server --l1-size-gb 60 --eviction-policy LRU"},
    {"text": "lmcache server --l1-size-gb 60 --eviction-policy ARC", "lmcache": "0.5.6"},
    {"text": "lmcache server --l1-manager '{\"size_gb\":60}'"},
    {"text": 'lmcache server "$@"'},
    {"text": "lmcache_server 0.0.0.0 8100"},
]


@pytest.mark.parametrize("case", FIRES)
def test_speaks(checked: Any, case: dict[str, Any]) -> None:
    found = [f for f in checked(case) if f.rule == RULE]
    assert any(
        f.severity == case["severity"]
        and case.get("says", "") in f.message
        and case.get("fix", "") in (f.fix or "")
        for f in found
    ), found


@pytest.mark.parametrize("case", SILENT)
def test_keeps_silent(checked: Any, case: dict[str, Any]) -> None:
    assert [f for f in checked(case) if f.rule == RULE] == []
