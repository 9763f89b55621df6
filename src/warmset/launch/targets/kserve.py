"""A KServe LLMInferenceService.

Its own field for offloading cannot say all that a tier needs (the load-failure policy, an object store,
LMCache) and differs between KServe releases, so the tier is written as vLLM's own arguments. They go into
VLLM_ADDITIONAL_ARGS: the default template splits `args` at blanks, but reads that variable as a shell does.

What KServe decides by itself:

* the port of the server and of its Service is 8000, and nothing else works with its scheduler;
* vLLM gets a self-signed certificate (for `localhost`, among others) where `enableLLMInferenceServiceTLS` is on in
  KServe's ConfigMap; SGLang never does, whatever the Service says;
* models come by hf://, s3://, pvc:// or oci://, and by nothing else.

Sources: KServe's samples (docs/samples/llmisvc), its templates (config/llmisvcconfig) and its controller (workload.go,
workload_tls_self_signed.go, workload_storage.go, entrypoint_scripts.go in pkg/controller/v1alpha2/llmisvc).
"""

import shlex
from typing import Any

from warmset.errors import InputError, Unsupported
from warmset.launch.parts import Parts, Step, Written
from warmset.launch.request import LaunchRequest
from warmset.launch.targets.manifest import (
    FORWARD,
    cache_server_manifest,
    cache_server_notes,
    kubernetes_env,
    kubernetes_text,
    kv_volume,
    memory_gib,
    model_folder,
    resource_name,
    secret_notes,
    shm_gib,
    to_yaml,
)

FILE = "llminferenceservice.yaml"

# KServe's own: its Service, its probes and its scheduler know no other.
PORT = 8000
SGLANG_RUNTIME = "kserve-llm-sglang"
_PATH = (
    "/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)
_SCHEMES = ("hf", "s3", "pvc", "oci")

_HUB_NOTES = (
    "a gated model needs a token: a Secret with the key HF_TOKEN, among the `secrets` of the namespace's default "
    "ServiceAccount",
)
_SGLANG_NOTES = (
    f"KServe runs SGLang by its runtime `{SGLANG_RUNTIME}`, an experiment of its newer releases: "
    f"`kubectl get clusterservingruntime {SGLANG_RUNTIME}` says whether the cluster has it",
)


def write(request: LaunchRequest, parts: Parts) -> Written:
    """The manifest, and the command that applies it.

    Raises:
        Unsupported: another port than KServe's.
        InputError: a model from where KServe fetches none.
    """
    if request.port not in (None, PORT):
        raise Unsupported(
            f"KServe serves on port {PORT} of its own: `--port {request.port}` cannot be had",
            hint="leave `--port` out, or use `--as compose`",
        )
    documents = [_service(request, parts)]
    if parts.cache_server is not None:
        documents.insert(0, cache_server_manifest(parts))
    name = resource_name(request)
    return Written(
        f"kubectl apply -f {FILE}",
        f"http://localhost:{PORT}",
        {FILE: to_yaml(*documents)},
        (
            Step(
                FORWARD + ("" if _is_sglang(parts) else " (by HTTPS where KServe has TLS on: see the notes)"),
                f"kubectl port-forward service/{name}-kserve-workload-svc {PORT}:{PORT}",
            ),
        ),
        (
            *(_SGLANG_NOTES if _is_sglang(parts) else _vllm_notes(name)),
            f"KServe serves port {PORT} itself; `main` and `dshm` are merged into its own template by name",
            *cache_server_notes(parts),
            *secret_notes(parts),
            *(_HUB_NOTES if _uri(request).startswith("hf://") else ()),
        ),
    )


def _vllm_notes(name: str) -> tuple[str, ...]:
    return (
        "the tier is written as vLLM's own arguments: `kvCacheOffloading` cannot set a load-failure policy, and its "
        "form differs between KServe releases; do not set both",
        "needs KServe 0.18 or newer: older templates do not read VLLM_ADDITIONAL_ARGS, and the server starts without "
        "the tier",
        "runAsNonRoot is set to false because the image runs as root, which KServe's template forbids",
        "where KServe has TLS on (`enableLLMInferenceServiceTLS`, as OpenShift AI has by default), take its "
        f"certificate by `kubectl get secret {name}-kserve-self-signed-certs -o jsonpath='{{.data.tls\\.crt}}' | "
        f"base64 -d > kserve.crt`, and measure `https://localhost:{PORT}` with `--ca-file kserve.crt`",
    )


def _is_sglang(parts: Parts) -> bool:
    return parts.server.name == "sglang"


def _service(request: LaunchRequest, parts: Parts) -> dict[str, Any]:
    process = parts.server
    sglang = _is_sglang(parts)
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
    if process.folder:
        # The template calls the program by its name alone.
        env.insert(0, {"name": "PATH", "value": f"{process.folder}:{_PATH}"})
    if not sglang:
        container["securityContext"] = {"runAsNonRoot": False}
    if env:
        container["env"] = env
    container["resources"] = {"requests": resources, "limits": dict(resources)}
    container["volumeMounts"] = [{"name": "dshm", "mountPath": "/dev/shm"}, *mounts]  # noqa: S108
    shared = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{shm_gib(parts)}Gi"}}
    spec: dict[str, Any] = {
        "model": {"uri": _uri(request), "name": request.served_model.removeprefix("hf://")},
        "replicas": 1,
        "router": {"route": {}, "gateway": {}, "scheduler": {}},
        "template": {"containers": [container], "volumes": [shared, *volumes]},
    }
    if sglang:
        spec = {"runtime": SGLANG_RUNTIME, **spec}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2" if sglang else "serving.kserve.io/v1alpha1",
        "kind": "LLMInferenceService",
        "metadata": {"name": resource_name(request)},
        "spec": spec,
    }


def _uri(request: LaunchRequest) -> str:
    """Where KServe gets the model from; a Hub id unless the name has a scheme of its own."""
    model = request.served_model
    scheme, separator, _ = model.partition("://")
    if model_folder(request) is not None or (separator and scheme not in _SCHEMES):
        raise InputError(
            f"KServe fetches no model from `{model[:80]}`",
            hint="give a Hub id, or write it like `pvc://CLAIM/FOLDER`, `s3://BUCKET/FOLDER` or `oci://IMAGE`",
        )
    return model if separator else f"hf://{model}"


def _without_port(argv: tuple[str, ...]) -> tuple[str, ...]:
    if "--port" not in argv:
        return argv
    at = argv.index("--port")
    return (*argv[:at], *argv[at + 2 :])
