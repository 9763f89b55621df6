"""Values for the chart of vLLM's production-stack.

Written against chart vllm-stack 0.1.12 (helm/templates/deployment-vllm-multi.yaml). Its traps, and what is done:

* without `enablePrefixCaching: true` it passes `--no-enable-prefix-caching`, and no tier is ever hit;
* `/dev/shm` is sized only where `tensorParallelSize` is set;
* `cpuOffloadingBufferSize` is per worker and is dropped unless it reads as a whole number;
* it appends its own `--kv-transfer-config` for LMCache, without a load-failure policy;
* a disk size for LMCache creates no disk tier without a path, which it does not set.
"""

from typing import Any

from warmset.errors import Unsupported
from warmset.launch.parts import Parts, Step, Written
from warmset.launch.request import LaunchRequest
from warmset.launch.surface import compact
from warmset.launch.targets.manifest import (
    FORWARD,
    MODEL_VOLUME,
    cache_server_manifest,
    cache_server_notes,
    kubernetes_env,
    kubernetes_text,
    kv_volume,
    memory_gib,
    model_folder,
    node_directory,
    resource_name,
    secret_notes,
    shm_gib,
    to_yaml,
)

CHART_VERSION = "0.1.12"
RELEASE = "vllm"
FILE, CACHE_SERVER_FILE = "values.yaml", "lmcache-server.yaml"

NOTES = (
    f"values for chart vllm-stack {CHART_VERSION}; add the repository first: "
    "`helm repo add vllm https://vllm-project.github.io/production-stack`",
    "enablePrefixCaching is set because the chart turns prefix caching off without it, and tensorParallelSize "
    "because the chart sizes /dev/shm only with it",
)

# Flags that the chart writes itself, from fields of vllmConfig.
_OWN_FLAGS = ("--tensor-parallel-size", "--max-model-len", "--port")
_BUFFER = "LMCACHE_MAX_LOCAL_CPU_SIZE"


def write(request: LaunchRequest, parts: Parts) -> Written:
    """The values, LMCache's server where there is one, and the command that applies them."""
    if parts.server.name != "vllm":
        raise Unsupported(
            "the production-stack chart runs vLLM only",
            hint="use `--as compose` or `--as kserve`, or `--engine vllm` with `--backend native`",
        )
    in_process = bool(parts.lmcache_env)
    config: dict[str, Any] = {"enablePrefixCaching": True, "tensorParallelSize": request.tp}
    if request.max_model_len is not None:
        config["maxModelLen"] = request.max_model_len
    arguments = _lmcache_arguments(parts) if in_process else ()
    extra = [*_arguments(parts.server.argv[3:], in_process), *arguments]
    if extra:
        config["extraArgs"] = [kubernetes_text(word, parts.secrets) for word in extra]
    repository, _, tag = parts.server.image.partition(":")
    model: dict[str, Any] = {
        "name": resource_name(request),
        "repository": repository,
        "tag": tag,
        "modelURL": request.served_model,
        "replicaCount": 1,
        "requestCPU": 8,
        "requestMemory": f"{memory_gib(parts)}Gi",
        "requestGPU": request.devices,
        "shmSize": f"{shm_gib(parts)}Gi",
        "vllmConfig": config,
    }
    if in_process:
        model["lmcacheConfig"] = _lmcache_config(parts)
    # The chart sets PYTHONHASHSEED itself, for every engine; a second entry of that name would be invalid.
    written = ("PYTHONHASHSEED", *(("LMCACHE_MAX_LOCAL_CPU_SIZE",) if _whole(parts) else ()))
    if env := kubernetes_env(parts, without=written):
        model["env"] = env
    volumes, mounts = kv_volume(parts)
    if (folder := model_folder(request)) is not None:
        more, places = node_directory(folder, MODEL_VOLUME, "Directory")
        volumes, mounts = [*volumes, *more], [*mounts, *places]
    if volumes:
        model |= {"extraVolumes": volumes, "extraVolumeMounts": mounts}
    spec: dict[str, Any] = {"modelSpec": [model]}
    if request.port is not None:
        spec = {"containerPort": request.port, **spec}
    files = {FILE: to_yaml({"servingEngineSpec": spec})}
    command = f"helm upgrade --install {RELEASE} vllm/vllm-stack --version {CHART_VERSION} -f {FILE}"
    if parts.cache_server is not None:
        files[CACHE_SERVER_FILE] = to_yaml(cache_server_manifest(parts))
        command = f"kubectl apply -f {CACHE_SERVER_FILE} && {command}"
    port = parts.server.port
    return Written(
        command,
        f"http://localhost:{port}",
        files,
        (
            Step(
                FORWARD,
                f"kubectl port-forward deployment/{RELEASE}-{model['name']}-deployment-vllm {port}:{port}",
            ),
        ),
        _notes(request, parts),
    )


def _notes(request: LaunchRequest, parts: Parts) -> tuple[str, ...]:
    found = [*NOTES, *cache_server_notes(parts), *secret_notes(parts)]
    if model_folder(request) is None:
        found.append(
            "a gated model needs a token: add `hf_token: {secretName: NAME, secretKey: KEY}` beside modelURL, where "
            "NAME is your Secret and KEY its key"
        )
    if "PYTHONHASHSEED" in parts.env:
        found.append(
            "the chart itself sets PYTHONHASHSEED, to 123 for every engine: the values do not have it"
        )
    if parts.lmcache_env:
        found.append("cpuOffloadingBufferSize is GiB per worker, not per pod")
        if "kv_load_failure_policy" in (parts.transfer_config or {}):
            found.append(
                "the chart's own --kv-transfer-config has no load-failure policy; the dotted flags in extraArgs are "
                "read after it and replace it"
            )
    return tuple(found)


def _arguments(argv: tuple[str, ...], in_process: bool) -> list[str]:
    """The server's arguments without those that the chart writes itself."""
    own = (*_OWN_FLAGS, "--kv-transfer-config") if in_process else _OWN_FLAGS
    kept: list[str] = []
    words = iter(argv)
    for word in words:
        if word in own:
            next(words)
        else:
            kept.append(word)
    return kept


def _lmcache_arguments(parts: Parts) -> tuple[str, ...]:
    """The connector as dotted flags, where the chart's own JSON says too little.

    vLLM turns dotted flags into one JSON value behind all other arguments, so they replace the chart's.
    """
    config = parts.transfer_config or {}
    if "kv_load_failure_policy" not in config:
        return ()
    return tuple(
        word
        for name, value in config.items()
        for word in (f"--kv-transfer-config.{name}", value if isinstance(value, str) else compact(value))
    )


def _lmcache_config(parts: Parts) -> dict[str, Any]:
    config: dict[str, Any] = {"enabled": True}
    if _whole(parts):
        config["cpuOffloadingBufferSize"] = parts.lmcache_env[_BUFFER]
    return config


def _whole(parts: Parts) -> bool:
    """Whether the buffer is a whole number above 0: all that the chart passes on."""
    return parts.lmcache_env.get(_BUFFER, "").isdigit()
