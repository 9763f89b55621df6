"""The rule `region-size`: where it speaks, and where it keeps silent."""
# commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "region-size"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --kv-offloading-size 24",
        "severity": "warning",
        "says": "50%",
        "also": {"s.log": "INFO 09-01 10:00:00 [x.py:1] Created mmap file /dev/shm/x.mmap (12.88 GB)\n"},
    }
]
SILENT: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --kv-offloading-size 12",
        "also": {"s.log": "INFO 09-01 10:00:00 [x.py:1] Created mmap file /dev/shm/x.mmap (12.88 GB)\n"},
    }
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
