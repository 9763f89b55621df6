"""The rule `connector-missing`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "connector-missing"
FIRES: list[dict[str, Any]] = [
    {
        "text": "LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve M",
        "severity": "warning",
        "says": "no `--kv-transfer-config`",
    },
    {"text": "vllm serve M --kv-offloading-backend native", "severity": "warning", "says": "does nothing"},
    {
        "text": 'vllm serve M --kv-transfer-config \'{"kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "names no",
    },
    {
        "text": 'services:\n  v:\n    image: lmcache/vllm-openai:v0.3.7\n    environment: {LMCACHE_LOCAL_DISK: "file:///kv/"}\n    command: Qwen/Qwen3-8B\n',
        "severity": "warning",
        "name": "compose.yaml",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {"text": "vllm serve M"},
    {"text": "LMCACHE_MAX_LOCAL_CPU_SIZE=50\n", "name": "x.env"},
    {"text": 'LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve M "$@"'},
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
