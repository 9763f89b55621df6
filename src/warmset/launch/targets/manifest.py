"""What the YAML targets share: names, sizes and one way to write."""

import re
from typing import Any

from warmset.errors import InputError
from warmset.launch.amounts import ceil_gib
from warmset.launch.parts import SECRET, SHM_BASE_BYTES, Parts
from warmset.launch.request import UNNAMED_MODEL, LaunchRequest
from warmset.units import GIB

# For the server's own code, tokenizer and weights on their way to the device, beside the tier.
SERVER_MEMORY_BYTES = 16 * GIB
# A tier next to a container's limit gets the container killed: this part of the limit stays free, as `check` wants it.
_FREE_PART = 10

# The Kubernetes Secret that holds the credentials of an object store.
OBJECT_SECRET = "kv-object-store"  # noqa: S105  # a name, not a password

KV_VOLUME, MODEL_VOLUME = "kv-cache", "model"

# What `kubectl port-forward` is for.
FORWARD = "in a second terminal, again after each restart: brings the server to localhost"

# With the longest suffix that KServe appends, `-kserve-self-signed-certs`, this is still a name for Kubernetes; of a
# longer one KServe makes a hash.
_MAX_NAME = 38


def to_yaml(*documents: dict[str, Any]) -> str:
    """YAML, keys in their own order, strings never folded, nothing written as an alias."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump_all(documents, Dumper=Plain, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text


def resource_name(request: LaunchRequest) -> str:
    """The model as a DNS label."""
    tail = (request.model or UNNAMED_MODEL).rstrip("/").split("/")[-1].lower()
    label = re.sub(r"[^a-z0-9]+", "-", tail).strip("-")
    return (label if label[:1].isalpha() else f"model-{label}")[:_MAX_NAME].strip("-")


def model_folder(request: LaunchRequest) -> str | None:
    """The folder of a model that is not fetched from anywhere; None for one that is.

    Raises InputError for a relative path, which a container does not have.
    """
    model = request.served_model
    if model.startswith((".", "~")):
        raise InputError(
            f"model `{model[:80]}` is a path from the current folder, which the container does not have",
            hint="give the absolute path of the folder, such as `/models/mine`",
        )
    return model if model.startswith("/") else None


def shm_gib(parts: Parts) -> int:
    """Size of /dev/shm in whole GiB: the tier, if it lives there, and the base."""
    return ceil_gib(parts.shm_bytes + SHM_BASE_BYTES)


def memory_gib(parts: Parts) -> int:
    """Memory of the server's container in whole GiB: tiers (unless a cache server has them), /dev/shm and the rest."""
    tier = 0 if parts.cache_server is not None else parts.host_memory_bytes
    return _with_room(tier, SHM_BASE_BYTES + SERVER_MEMORY_BYTES)


def _with_room(tier_bytes: int, base_bytes: int) -> int:
    """A limit in whole GiB for a tier and a base, a tenth of it free of the tier."""
    return max(ceil_gib(tier_bytes + base_bytes), ceil_gib(-(-tier_bytes * _FREE_PART // (_FREE_PART - 1))))


def kubernetes_text(text: str, secrets: tuple[str, ...] = ()) -> str:
    """Text for a container's command: Kubernetes fills `$(NAME)` in, and nothing else."""
    for name in secrets:
        text = text.replace(SECRET % name, f"$({name})")
    return text


def kubernetes_env(parts: Parts, *, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The environment as Kubernetes wants it; credentials come from a Secret."""
    env: list[dict[str, Any]] = [
        {"name": name, "value": value} for name, value in parts.env.items() if name not in without
    ]
    if parts.cache_server is not None:
        env.append({"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}})
    for name in parts.secrets:
        reference: dict[str, Any] = {"name": OBJECT_SECRET, "key": name}
        if not parts.required_secrets:
            reference["optional"] = True
        env.append({"name": name, "valueFrom": {"secretKeyRef": reference}})
    return env


def kv_volume(parts: Parts) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes and mounts of the disk tier: the node's own directory, so that it outlives the pod."""
    if parts.disk_path is None or parts.cache_server is not None:
        return [], []
    return node_directory(parts.disk_path)


def secret_notes(parts: Parts) -> tuple[str, ...]:
    """How the credentials that the manifest refers to come into the cluster."""
    if not parts.secrets:
        return ()
    names = " and ".join(f"`{name}=…`" for name in parts.secrets)
    return (
        f"in the cluster, credentials come from the Secret `{OBJECT_SECRET}`"
        f"{'' if parts.required_secrets else ', which may be missing'}; "
        f"`kubectl create secret generic {OBJECT_SECRET} --from-env-file=FILE` makes it from a FILE with {names} on "
        "lines of their own",
    )


def node_directory(
    path: str, name: str = KV_VOLUME, kind: str = "DirectoryOrCreate"
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A volume on a directory of the node, mounted at the same path."""
    volume = {"name": name, "hostPath": {"path": path, "type": kind}}
    return [volume], [{"name": name, "mountPath": path}]


def cache_server_notes(parts: Parts) -> tuple[str, ...]:
    """What to know of LMCache's server in a cluster."""
    if parts.cache_server is None:
        return ()
    return (
        "lmcache-server runs on every node and takes its memory there: narrow it to the nodes of the model by a "
        "`nodeSelector` in its pod; it needs the RuntimeClass `nvidia`",
    )


def cache_server_manifest(parts: Parts) -> dict[str, Any]:
    """LMCache's server on every node that takes it, tainted for GPUs or not, reached by its node's address."""
    process = parts.cache_server
    assert process is not None
    volumes, mounts = node_directory(parts.disk_path) if parts.disk_path else ([], [])
    memory = f"{_with_room(parts.host_memory_bytes, SHM_BASE_BYTES)}Gi"
    container: dict[str, Any] = {
        "name": process.name,
        "image": process.image,
        "command": list(process.contained),
        "ports": [{"name": "clients", "containerPort": process.port, "hostPort": process.port}],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "resources": {"requests": {"cpu": "4", "memory": memory}, "limits": {"memory": memory}},
    }
    if mounts:
        container["volumeMounts"] = mounts
    # It asks for no GPU of its own, so that nothing adds the toleration which the server's pod gets with its GPUs.
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    pod: dict[str, Any] = {
        "runtimeClassName": "nvidia",
        "tolerations": [toleration],
        "containers": [container],
    }
    if volumes:
        pod["volumes"] = volumes
    labels = {"app": "lmcache-server"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "lmcache-server"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
