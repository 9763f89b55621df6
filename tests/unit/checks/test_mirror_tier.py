"""The rule `mirror-tier`: where it speaks, and where it keeps silent."""
# commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "mirror-tier"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M -tp 4 --kv-cache-memory-bytes 60G --kv-offloading-size 64",
        "severity": "warning",
        "says": "mirrors",
        "fix": "above",
    },
    {
        "text": "vllm serve M --kv-offloading-size 40",
        "severity": "warning",
        "says": "54.2 GiB",
        "also": {"s.log": "INFO 09-01 10:00:00 [x.py:1] Available KV cache memory: 54.20 GiB\n"},
    },
    {
        "text": "DYN_KVBM_CPU_CACHE_GB=4 python -m dynamo.vllm --model M --kv-cache-memory-bytes 40000000000",
        "severity": "warning",
        "says": "3.73 GiB",
        "fix": "DYN_KVBM_CPU_CACHE_GB=44",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M -tp 4 --kv-cache-memory-bytes 60G --kv-offloading-size 400"},
    {"text": "vllm serve M --kv-offloading-size 40"},
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
