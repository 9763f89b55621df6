"""The rule `env-not-exported`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "env-not-exported"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'LMCACHE_CHUNK_SIZE=64\nvllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "without `export`",
        "fix": "export LMCACHE_CHUNK_SIZE=64",
    },
    {"text": "PYTHONHASHSEED=0\nvllm serve M", "severity": "warning"},
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'export LMCACHE_CHUNK_SIZE=64\nvllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {
        "text": 'set -a\nLMCACHE_CHUNK_SIZE=64\nvllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {"text": "MODEL=x\nvllm serve $MODEL"},
    {
        "text": 'LMCACHE_CHUNK_SIZE=64 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {"text": "PYTHONHASHSEED=0\nexport PYTHONHASHSEED\nvllm serve M"},
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
