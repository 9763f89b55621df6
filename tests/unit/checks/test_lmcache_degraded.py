"""The rule `lmcache-degraded`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "lmcache-degraded"
FIRES: list[dict[str, Any]] = [
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] LMCacheEngine marked as init failed\n",
        "severity": "error",
        "says": "recomputes everything",
        "name": "server.log",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] --kv-transfer-config is not supported by the V1 Engine. Falling back to V0.\n",
        "severity": "warning",
        "says": "V0",
        "name": "server.log",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "INFO 09-01 10:00:00 [x.py:1] LMCache engine ready\n", "name": "server.log"}
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
