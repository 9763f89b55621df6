"""The rule `weight-offload-inert`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "weight-offload-inert"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --cpu-offload-gb 4",
        "severity": "warning",
        "says": "V2 model runner",
        "engine": "vllm@0.22",
    },
    {
        "text": "vllm serve M --cpu-offload-gb 4",
        "severity": "warning",
        "says": "has no `Offloader set to`",
        "also": {
            "s.log": "INFO 09-01 10:00:00 [x.py:1] vLLM API server version 0.25.1\nINFO 09-01 10:00:00 [x.py:1] GPU KV cache size: 1,000 tokens\n"
        },
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --cpu-offload-gb 4", "engine": "vllm@0.19"},
    {"text": "vllm serve M --cpu-offload-gb 4"},
    {
        "text": "vllm serve M --cpu-offload-gb 4",
        "also": {
            "s.log": "INFO 09-01 10:00:00 [x.py:1] vLLM API server version 0.25.1\nINFO 09-01 10:00:00 [x.py:1] Offloader set to UVAOffloader\nINFO 09-01 10:00:00 [x.py:1] GPU KV cache size: 1,000 tokens\n"
        },
    },
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
