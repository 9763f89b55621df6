"""The rule `lmcache-server-needed`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "lmcache-server-needed"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --kv-offloading-backend lmcache --kv-offloading-size 100",
        "severity": "warning",
        "says": "does not size it",
        "fix": "lmcache server --l1-size-gb 100",
    },
    {
        "text": "vllm serve M -tp 4 --kv-offloading-backend lmcache --kv-offloading-size 100",
        "severity": "note",
        "says": "25.0 GiB each",
        "engine": "vllm@0.20",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}\'',
        "severity": "note",
        "says": "none is in the input",
    },
    {
        "text": "lmcache server --l1-size-gb 9 --eviction-policy LRU &\nvllm serve M --kv-offloading-backend lmcache --kv-offloading-size 100",
        "severity": "note",
        "says": "--l1-size-gb",
    },
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'lmcache server --l1-size-gb 9 --eviction-policy LRU &\nvllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}\''
    },
    {"text": "vllm serve M --kv-offloading-size 100"},
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both","kv_connector_extra_config":{"lmcache.mp.host":"tcp://10.0.0.9"}}\''
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
