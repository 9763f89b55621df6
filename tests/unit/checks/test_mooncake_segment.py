"""The rule `mooncake-segment`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "mooncake-segment"
FIRES: list[dict[str, Any]] = [
    {
        "text": '{"global_segment_size": "40GB", "local_buffer_size": 1}',
        "severity": "warning",
        "says": "full",
        "name": "m.json",
        "also": {"s.log": "INFO 09-01 10:00:00 [x.py:1] put failed: NO_AVAILABLE_HANDLE\n"},
    },
    {
        "text": 'python -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 8 --enable-hierarchical-cache --hicache-storage-backend mooncake --hicache-storage-backend-extra-config \'{"global_segment_size":"4gb"}\'',
        "severity": "note",
        "says": "8 × 4 GB",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": '{"global_segment_size": "40GB", "local_buffer_size": 1}', "name": "m.json"}
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
