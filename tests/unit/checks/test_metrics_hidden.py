"""The rule `metrics-hidden`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "metrics-hidden"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --kv-offloading-size 4 --disable-log-stats",
        "severity": "warning",
        "says": "/metrics",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-size 4",
        "severity": "note",
        "says": "--enable-metrics",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "note",
        "says": "PROMETHEUS_MULTIPROC_DIR",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --disable-log-stats"},
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-size 4 --enable-metrics"
    },
    {
        "text": 'PROMETHEUS_MULTIPROC_DIR=/tmp/p vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
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
