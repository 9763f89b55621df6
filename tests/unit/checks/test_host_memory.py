"""The rule `host-memory`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "host-memory"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --kv-offloading-size 300",
        "severity": "error",
        "says": "more than the host",
        "host_ram": 256,
    },
    {
        "text": "vllm serve M -dp 4 --kv-offloading-size 100",
        "severity": "error",
        "says": "4 replicas = 400 GiB",
        "host_ram": 256,
    },
    {
        "text": "vllm serve M --kv-offloading-size 250",
        "severity": "warning",
        "says": "leaves too little",
        "host_ram": 256,
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"cpu_bytes_to_use":214748364800}}\'',
        "severity": "error",
        "says": "200 GiB",
        "fix": '"cpu_bytes_to_use":',
        "host_ram": 128,
    },
    {
        "text": "docker run --memory 32g --ipc=host vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 64",
        "severity": "error",
        "says": "container",
    },
    {
        "text": "services:\n  v:\n    image: vllm/vllm-openai:v0.28.0\n    ipc: host\n    mem_limit: 16g\n    command: --model M --kv-offloading-size 64\n",
        "severity": "error",
        "says": "container",
        "fix": "memory: 77Gi",
        "name": "compose.yaml",
    },
    {
        "text": "lmcache server --l1-size-gb 600 --eviction-policy LRU",
        "severity": "error",
        "fix": "--l1-size-gb",
        "host_ram": 512,
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --kv-offloading-size 100", "host_ram": 256},
    {"text": "vllm serve M --kv-offloading-size 100"},
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
