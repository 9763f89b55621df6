"""The rule `remote-url`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "remote-url"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'chunk_size: 256\nremote_url: "s3://my-bucket/sub"\n',
        "severity": "error",
        "says": "BUCKET.ENDPOINT",
        "name": "lmcache.yaml",
    },
    {
        "text": 'LMCACHE_REMOTE_URL=unix:///tmp/r.sock vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "note",
        "says": "unix socket",
    },
    {
        "text": 'LMCACHE_REMOTE_URL=http://h:1 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "no remote store",
    },
    {
        "text": "INFO 09-01 10:00:00 [x.py:1] LMCache config: {'remote_url': 'unix:///tmp/redis.sock'}\n",
        "severity": "note",
        "name": "server.log",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": 'chunk_size: 256\nremote_url: "s3://b.s3.eu-west-1.amazonaws.com"\n', "name": "lmcache.yaml"},
    {
        "text": 'LMCACHE_REMOTE_URL=redis://h:6379 vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
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
