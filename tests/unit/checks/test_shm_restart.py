"""The rule `shm-restart`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "shm-restart"
FIRES: list[dict[str, Any]] = [
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.28.0\n    args: ["--model", "M", "--kv-offloading-size", "32"]\n    volumeMounts: [{name: s, mountPath: /dev/shm}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory, sizeLimit: 40Gi}\n',
        "severity": "warning",
        "says": "one region of 32.0 GiB fits",
        "name": "pod.yaml",
    }
]
SILENT: list[dict[str, Any]] = [
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.28.0\n    args: ["--model", "M", "--kv-offloading-size", "32"]\n    volumeMounts: [{name: s, mountPath: /dev/shm}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory, sizeLimit: 80Gi}\n',
        "name": "pod.yaml",
    },
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.31.0\n    args: ["--model", "M", "--kv-offloading-size", "32"]\n    volumeMounts: [{name: s, mountPath: /dev/shm}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory, sizeLimit: 40Gi}\n',
        "name": "pod.yaml",
    },
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.25.0\n    args: ["--model", "M", "--kv-offloading-size", "32"]\n    volumeMounts: [{name: s, mountPath: /dev/shm}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory, sizeLimit: 40Gi}\n',
        "name": "pod.yaml",
    },
    {
        "text": 'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: v\n    image: vllm/vllm-openai:v0.28.0\n    args: ["--model", "M", "--kv-offloading-size", "32"]\n    volumeMounts: [{name: s, mountPath: /dev/shm}]\n  volumes:\n  - name: s\n    emptyDir: {medium: Memory, sizeLimit: 40Gi}\n# an init container runs rm -f /dev/shm/vllm_offload_*\n',
        "name": "pod.yaml",
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
