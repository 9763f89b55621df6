"""The rule `log-failure`: where it speaks, and where it keeps silent."""
# commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "log-failure"
FIRES: list[dict[str, Any]] = [
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] ValueError: Unsupported connector type: LMCacheConnector\n",
        "severity": "error",
        "says": "`LMCacheConnector`",
        "name": "server.log",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] vllm: error: unrecognized arguments: --swap-space 4\n",
        "severity": "error",
        "says": "`--swap-space`",
        "name": "server.log",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] Timeout occurred for rank 1, recreating all sockets\n",
        "severity": "error",
        "says": "one machine",
        "name": "server.log",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] resource_tracker: There appear to be 4 leaked shared_memory objects\n",
        "severity": "warning",
        "says": "per-rank pool",
        "name": "server.log",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "INFO 09-01 10:00:00 [x.py:1] Application startup complete.\n", "name": "server.log"}
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
