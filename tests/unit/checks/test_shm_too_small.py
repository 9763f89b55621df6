"""The rule `shm-too-small`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "shm-too-small"
FIRES: list[dict[str, Any]] = [
    {
        "text": "docker run vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 32",
        "severity": "error",
        "says": "64.0 MiB (the default)",
        "fix": "--shm-size 40g",
    },
    {
        "text": "docker run --shm-size 16g vllm/vllm-openai:v0.27.0 --model M --kv-offloading-size 32",
        "severity": "error",
        "says": "16.0 GiB",
    },
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.28.0\n    args: ["--model", "M", "--kv-offloading-size", "32"]\n    volumeMounts: [{name: s, mountPath: /dev/shm}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory, sizeLimit: 1Gi}\n',
        "severity": "error",
        "says": "1.00 GiB",
        "name": "pod.yaml",
    },
    {
        "text": "services:\n  v:\n    image: vllm/vllm-openai:v0.28.0\n    command: --model M --kv-offloading-size 8\n",
        "severity": "error",
        "fix": "shm_size: 11gb",
        "name": "compose.yaml",
    },
    {
        "text": 'INFO 09-01 10:00:00 [x.py:1] OSError: [Errno 14] Bad address\nINFO 09-01 10:00:00 [x.py:1] File "shared_offload_region.py", line 4, in madvise\n',
        "severity": "error",
        "says": "killed servers",
        "name": "server.log",
    },
    {
        "text": 'docker run vllm/vllm-openai:v0.22.0 --model M --kv-transfer-config \'{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_connector_extra_config":{"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":42949672960,"secondary_tiers":[{"type":"fs_python","root_dir":"/kv"}]}}\'',
        "severity": "error",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "docker run vllm/vllm-openai:v0.25.0 --model M --kv-offloading-size 32"},
    {"text": "docker run --ipc=host vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 32"},
    {"text": "docker run --ipc host vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 32"},
    {"text": "docker run --shm-size=64g vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 32"},
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.28.0\n    args: ["--model", "M", "--kv-offloading-size", "32"]\n    volumeMounts: [{name: s, mountPath: /dev/shm}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory, sizeLimit: 40Gi}\n',
        "name": "pod.yaml",
    },
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.28.0\n    args: ["--model", "M", "--kv-offloading-size", "32"]\n    volumeMounts: [{name: s, mountPath: /dev/shm}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory}\n',
        "name": "pod.yaml",
    },
    {"text": "vllm serve M --kv-offloading-size 32", "engine": "vllm@0.28"},
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
