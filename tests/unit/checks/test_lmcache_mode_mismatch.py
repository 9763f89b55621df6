"""The rule `lmcache-mode-mismatch`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "lmcache-mode-mismatch"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'lmcache server --l1-size-gb 20 --eviction-policy LRU &\nvllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "another protocol",
        "fix": "LMCacheMPConnector",
    },
    {
        "text": 'lmcache_server 0.0.0.0 65432 &\nvllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}\'',
        "severity": "error",
        "says": "lm://",
    },
    {
        "text": 'LMCACHE_REMOTE_URL=lm://h:1 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "lmcache.mp.host",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'lmcache server --l1-size-gb 20 --eviction-policy LRU &\nvllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}\''
    },
    {
        "text": 'lmcache_server 0.0.0.0 65432 &\nLMCACHE_REMOTE_URL=lm://h:65432 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
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
