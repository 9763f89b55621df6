"""The rule `ctx-exceeds-gpu-kv`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "ctx-exceeds-gpu-kv"
FIRES: list[dict[str, Any]] = [
    {
        "text": "ValueError: To serve at least one request with the models's max seq len (32768), (4.50 GiB KV cache is needed, which is larger than the available KV cache memory (3.58 GiB). Based on the available memory, the estimated maximum model length is 26032.\n",
        "severity": "error",
        "says": "144 KiB per token",
        "fix": "26032",
        "name": "server.log",
    },
    {
        "text": "ERROR: max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (5.0 GiB)\n",
        "severity": "error",
        "says": "cannot raise",
        "fix": "--max-model-len 36",
        "name": "server.log",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "INFO 09-01 10:00:00 [x.py:1] Available KV cache memory: 3.58 GiB\n", "name": "server.log"}
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
