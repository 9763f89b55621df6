"""The rule `flag-version`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "flag-version"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --kv-offloading-size 40",
        "severity": "error",
        "says": "came with 0.11.1",
        "engine": "vllm@0.10.2",
    },
    {
        "text": "vllm serve M --kv-offloading-size 40",
        "severity": "error",
        "says": "is needed until 0.13",
        "engine": "vllm@0.13",
    },
    {
        "text": "vllm serve M --kv-offloading-size 40 --kv-offloading-backend native",
        "severity": "error",
        "says": "cannot start",
        "engine": "vllm@0.12",
    },
    {
        "text": "vllm serve M --kv-offload-size 40",
        "severity": "error",
        "says": "does not parse",
        "fix": "--kv-offloading-size",
    },
    {
        "text": "vllm serve M --enable-hybrid-kv-cache-manager --kv-offloading-size 4",
        "severity": "error",
        "fix": "--no-disable-hybrid-kv-cache-manager",
    },
    {"text": "vllm serve M --kv-offloading-sizes 40", "severity": "error", "says": "did you mean"},
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-sizes 4",
        "severity": "error",
        "says": "did you mean",
    },
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --enable-hierarchical-cache --hicache-storage-prefetch-policy timeout",
        "severity": "error",
        "says": "came with",
        "engine": "sglang@0.4.10",
    },
    {
        "text": "sglang serve --model-path m --enable-hicache --hicache-ratio 2",
        "severity": "error",
        "says": "0.5.23",
        "engine": "sglang@0.5.9",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --kv-offloading-size 40"},
    {"text": "vllm serve M --kv-offloading-size 40 --kv-offloading-backend lmcache", "engine": "vllm@0.12"},
    {"text": "vllm serve M --my-plugin-flag 3"},
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
