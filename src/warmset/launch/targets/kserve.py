"""A KServe LLMInferenceService.

Its own field for offloading cannot say all that a tier needs (the load-failure policy, an object store,
LMCache) and differs between KServe releases, so the tier is written as vLLM's own arguments. They go into
VLLM_ADDITIONAL_ARGS: the default template splits `args` at blanks, but reads that variable as a shell does.
Source: KServe's samples of LLMInferenceService (docs/samples/llmisvc).
"""

import shlex
from typing import Any

from warmset.launch.parts import Parts
from warmset.launch.request import LaunchRequest
from warmset.launch.targets.manifest import (
    cache_server_manifest,
    kubernetes_env,
    kubernetes_text,
    kv_volume,
    memory_gib,
    resource_name,
    shm_gib,
    to_yaml,
)

FILE = "llminferenceservice.yaml"

NOTES = (
    "the tier is written as vLLM's own arguments: `kvCacheOffloading` cannot set a load-failure policy, and its form "
    "differs between KServe releases; do not set both",
    "KServe serves port 8000 itself; `main` and `dshm` are merged into its own template by name",
)


def write(request: LaunchRequest, parts: Parts) -> tuple[str, dict[str, str]]:
    """The manifest, and the command that applies it."""
    documents = [_service(request, parts)]
    if parts.cache_server is not None:
        documents.insert(0, cache_server_manifest(parts))
    return f"kubectl apply -f {FILE}", {FILE: to_yaml(*documents)}


def _service(request: LaunchRequest, parts: Parts) -> dict[str, Any]:
    process = parts.server
    sglang = process.name == "sglang"
    arguments = _without_port(process.argv[5 if sglang else 3 :])
    env = kubernetes_env(parts)
    resources = {"cpu": "8", "memory": f"{memory_gib(parts)}Gi", "nvidia.com/gpu": str(request.devices)}
    volumes, mounts = kv_volume(parts)
    container: dict[str, Any] = {"name": "main", "image": process.image}
    if sglang:
        container["args"] = list(arguments)
    elif arguments:
        line = kubernetes_text(shlex.join(arguments), parts.secrets)
        env.append({"name": "VLLM_ADDITIONAL_ARGS", "value": line})
    if env:
        container["env"] = env
    container["resources"] = {"requests": resources, "limits": dict(resources)}
    container["volumeMounts"] = [{"name": "dshm", "mountPath": "/dev/shm"}, *mounts]  # noqa: S108
    shared = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shm_gib(parts)}Gi"}}
    spec: dict[str, Any] = {
        "model": {"uri": _uri(request.served_model), "name": request.served_model},
        "replicas": 1,
        "router": {"route": {}, "gateway": {}, "scheduler": {}},
        "template": {"containers": [container], "volumes": [shared, *volumes]},
    }
    if sglang:
        spec = {"runtime": "kserve-llm-sglang", **spec}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2" if sglang else "serving.kserve.io/v1alpha1",
        "kind": "LLMInferenceService",
        "metadata": {"name": resource_name(request)},
        "spec": spec,
    }


def _uri(model: str) -> str:
    """Where KServe gets the model from; a Hub id unless the name has a scheme of its own."""
    if "://" in model:
        return model
    return f"file://{model}" if model.startswith("/") else f"hf://{model}"


def _without_port(argv: tuple[str, ...]) -> tuple[str, ...]:
    if "--port" not in argv:
        return argv
    at = argv.index("--port")
    return (*argv[:at], *argv[at + 2 :])
