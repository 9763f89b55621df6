"""The rule `weights-not-kv`: where it speaks, and where it keeps silent."""
# ruff: noqa: E501  # commands and manifests are tested as they are typed

from typing import Any

import pytest

RULE = "weights-not-kv"
FIRES: list[dict[str, Any]] = [
    {
        "text": "vllm serve M --cpu-offload-gb 40",
        "severity": "error",
        "says": "*weights*",
        "fix": "--kv-offloading-size 40",
    },
    {"text": "vllm serve M --cpu_offload_gb=40", "severity": "error"},
    {
        "text": "vllm serve M --offload-backend uva --offload-group-size 8",
        "severity": "error",
        "says": "`--offload-backend`, `--offload-group-size`",
    },
    {
        "text": 'vllm serve Qwen/Qwen3-8B --cpu-offload-gb 10 --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
        "severity": "warning",
        "says": "probably not meant",
    },
    {"text": "vllm serve M --cpu-offload-gb 8 --kv-offloading-size 8", "severity": "warning"},
    {
        "text": "python -m sglang.launch_server --model-path Qwen/Qwen3-32B --cpu-offload-gb 10",
        "severity": "error",
        "fix": "--hicache-size 10",
    },
    {
        "text": 'FROM vllm/vllm-openai:v0.30.0\nCMD ["--model", "M", "--cpu-offload-gb", "4"]\n',
        "severity": "error",
        "name": "Dockerfile",
    },
    {
        "text": "vllm serve M --cpu-offload-gb 40",
        "severity": "error",
        "fix": "--kv-offloading-backend native",
        "engine": "vllm@0.13",
    },
    {
        "text": "vllm serve M --cpu-offload-gb 40",
        "severity": "error",
        "fix": "LMCacheConnectorV1",
        "engine": "vllm@0.10",
    },
    {
        "name": "values.yaml",
        "text": "servingEngineSpec:\n  modelSpec:\n  - name: a\n    repository: vllm/vllm-openai\n    tag: v0.26.0\n    modelURL: m\n    requestGPU: 1\n    vllmConfig:\n      enablePrefixCaching: true\n      extraArgs: ['--cpu-offload-gb', '40']\n",
        "severity": "error",
        "fix": "--kv-offloading-size 40",
    },
    {
        "name": "llm.yaml",
        "text": "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: q}\nspec:\n  model: {uri: 'hf://Qwen/Qwen3-8B'}\n  template:\n    containers:\n    - name: main\n      image: vllm/vllm-openai:v0.26.0\n      env:\n      - {name: VLLM_ADDITIONAL_ARGS, value: '--cpu-offload-gb 20'}\n",
        "severity": "error",
    },
]
SILENT: list[dict[str, Any]] = [
    {"text": "vllm serve M --kv-offloading-size 40"},
    {"text": "vllm serve M --cpu-offload-gb 0"},
    {"text": "vllm serve M --offload-backend auto"},
    {"text": "# warmset: ignore[weights-not-kv] it does not fit\nvllm serve M --cpu-offload-gb 40"},
    {"text": "lmcache server --l1-size-gb 8 --eviction-policy LRU"},
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
