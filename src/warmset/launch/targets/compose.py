"""A compose file."""

from typing import Any

from warmset.launch.parts import SECRET, Parts, Process, Written
from warmset.launch.request import LaunchRequest
from warmset.launch.targets.manifest import model_folder, shm_gib, to_yaml

FILE = "compose.yaml"
HF_CACHE = "~/.cache/huggingface:/root/.cache/huggingface"


def write(request: LaunchRequest, parts: Parts) -> Written:
    """The file, and the command that starts it."""
    services: dict[str, Any] = {}
    if parts.cache_server is not None:
        services["lmcache"] = _cache_server(request, parts, parts.cache_server)
    services[parts.server.name] = _server(request, parts)
    return Written(
        f"docker compose -f {FILE} up -d",
        f"http://localhost:{parts.server.port}",
        {FILE: to_yaml({"services": services})},
    )


def _server(request: LaunchRequest, parts: Parts) -> dict[str, Any]:
    process = parts.server
    # The image's own entry point differs by version; the first words of the command replace it.
    sglang = process.name == "sglang"
    words = 3 if sglang else 2
    # By default SGLang answers only inside its own container; vLLM answers everywhere.
    everywhere = ("--host", "0.0.0.0") if sglang else ()  # noqa: S104
    service: dict[str, Any] = {
        "image": process.image,
        "entrypoint": list(process.contained[:words]),
        "command": [_escape(word, parts.secrets) for word in (*process.argv[words:], *everywhere)],
        "environment": _environment(parts),
        "ports": [f"{process.port}:{process.port}"],
        "volumes": [HF_CACHE],
        "ulimits": {"memlock": -1},
        "deploy": _gpus(request.devices),
    }
    if (folder := model_folder(request)) is not None:
        service["volumes"].append(f"{folder}:{folder}:ro")
    if parts.disk_path is not None and parts.cache_server is None:
        service["volumes"].append(f"{parts.disk_path}:{parts.disk_path}")
    if parts.cache_server is not None:
        # CUDA IPC works only between containers that share the namespace.
        service["ipc"] = "host"
        service["depends_on"] = ["lmcache"]
    else:
        service["shm_size"] = f"{shm_gib(parts)}gb"
    return service


def _cache_server(request: LaunchRequest, parts: Parts, process: Process) -> dict[str, Any]:
    service: dict[str, Any] = {
        "image": process.image,
        "entrypoint": list(process.contained[:2]),
        "command": [_escape(word) for word in process.argv[2:]],
        "ipc": "host",
        "ulimits": {"memlock": -1},
        "deploy": _gpus(request.devices),
    }
    if parts.disk_path is not None:
        service["volumes"] = [f"{parts.disk_path}:{parts.disk_path}"]
    return service


def _environment(parts: Parts) -> dict[str, str | None]:
    """Variables with their values; null passes the caller's own through, unwritten."""
    passed: dict[str, str | None] = dict.fromkeys(("HF_TOKEN", *parts.secrets))
    return {name: _escape(value) for name, value in parts.env.items()} | passed


def _gpus(count: int) -> dict[str, Any]:
    device = {"driver": "nvidia", "count": count, "capabilities": ["gpu"]}
    return {"resources": {"reservations": {"devices": [device]}}}


def _escape(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Compose fills `${NAME}` in; every other dollar is doubled."""
    text = text.replace("$", "$$")
    for name in secrets:
        text = text.replace("$" + SECRET % name, SECRET % name)
    return text
