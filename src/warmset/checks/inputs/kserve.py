"""KServe's LLMInferenceService: the server that its controller starts from the object's own fields."""

import json
from typing import Any

from warmset.checks.command import read_flags
from warmset.checks.inputs.kubernetes import container_env, pod_launches, pod_resources
from warmset.checks.record import SHM, Flag, Resources, ServerLaunch, Volume, quantity
from warmset.checks.shell import split
from warmset.checks.text import Word
from warmset.checks.tree import Node

_PARALLEL = {
    "tensor": "--tensor-parallel-size",
    "pipeline": "--pipeline-parallel-size",
    "data": "--data-parallel-size",
}


def kserve_launches(root: Node) -> list[ServerLaunch]:
    """One launch per workload (`spec` itself, `spec.prefill`), with the tiers of `kvCacheOffloading`."""
    spec = root.get("spec")
    if spec is None or spec.kind != "map":
        return []
    out: list[ServerLaunch] = []
    for workload in (spec, spec.get("workload"), spec.get("prefill"), spec.get("decode")):
        if workload is None or workload.kind != "map":
            continue
        if (
            workload is not spec
            and workload.get("kvCacheOffloading") is None
            and workload.get("template") is None
        ):
            continue
        out.append(_workload(root, spec, workload))
    if len(out) > 1 and spec.get("workload") is not None:
        out = out[1:]
    return out


def _workload(root: Node, spec: Node, workload: Node) -> ServerLaunch:
    template = workload.get("template") or spec.get("template")
    found = pod_launches(template) if template is not None else []
    main = _main_container(template)
    env = container_env(main) if main is not None else {}
    if found:
        launch = found[0]
    else:
        where = (root.key("kind") or root).word
        resources = (
            pod_resources(main, template, (root, spec, workload))
            if main is not None and template is not None
            else Resources(container=True, restarts=True, runtime="kubernetes")
        )
        words = split(env["VLLM_ADDITIONAL_ARGS"].body) if "VLLM_ADDITIONAL_ARGS" in env else []
        base = ServerLaunch("vllm", where, resources=resources)
        launch = read_flags("vllm", where, words, env, base=base)
    replicas = workload.scalar("replicas") or spec.scalar("replicas")
    changes: dict[str, Any] = {"replicas": int(replicas)} if replicas and replicas.isdigit() else {}
    resources = launch.resources
    if not any(v.path.rstrip("/") == SHM for v in resources.volumes):
        # The controller mounts and sizes /dev/shm itself unless the object does.
        changes["shm_bytes"] = 0
    from dataclasses import replace

    launch = launch.with_(resources=replace(resources, **changes), origin="kserve", complete=False)
    return _offloading(_parallel(launch, workload, spec), workload)


def _main_container(template: Node | None) -> Node | None:
    containers = template.get("containers") if template is not None else None
    items = containers.items if containers is not None else []
    named = [c for c in items if c.scalar("name") in ("main", "vllm", "kserve-container")]
    return next(iter(named or items), None)


def _parallel(launch: ServerLaunch, workload: Node, spec: Node) -> ServerLaunch:
    table = workload.get("parallelism") or spec.get("parallelism")
    flags = dict(launch.flags)
    for key, value in table.pairs if table is not None and table.kind == "map" else ():
        name = _PARALLEL.get(key.value)
        if name is not None and name not in flags:
            flags[name] = (Flag(name, key.word, value.word),)
    model = spec.get("model", "name") or spec.get("model", "uri")
    positionals = launch.positionals or (
        (model.word,) if model is not None and model.kind == "scalar" else ()
    )
    return launch.with_(flags=flags, positionals=positionals)


def _offloading(launch: ServerLaunch, workload: Node) -> ServerLaunch:
    """What the controller adds for `kvCacheOffloading`, unless the arguments say it already."""
    offload = workload.get("kvCacheOffloading")
    cpu = offload.get("cpu") if offload is not None else None
    if offload is None or cpu is None or cpu.kind != "scalar" or launch.has("--kv-transfer-config"):
        return launch
    size = quantity(cpu.value)
    extra: dict[str, object] = {"cpu_bytes_to_use": size}
    volumes = list(launch.resources.volumes)
    secondary = offload.get("secondary")
    tiers = []
    for index, item in enumerate(secondary.items if secondary is not None else ()):
        file_system = item.get("fileSystem")
        if file_system is None:
            continue
        path = f"/mnt/kv-cache-{index}"
        tiers.append({"type": "fs", "root_dir": path})
        empty = file_system.get("emptyDir")
        if empty is not None:
            limit = empty.get("size") or empty.get("sizeLimit")
            volumes.append(
                Volume(path, "emptydir", quantity(limit.value) if limit else None, (limit or empty).word)
            )
        else:
            volumes.append(Volume(path, "pvc", None, file_system.word))
    if tiers:
        extra |= {"spec_name": "TieringOffloadingSpec", "secondary_tiers": tiers}
    config = {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
    held = Word(json.dumps(config), cpu.text, 0, max(1, len(cpu.value)))
    flag = Flag("--kv-transfer-config", held, held)
    from dataclasses import replace

    return launch.with_(
        flags={**launch.flags, "--kv-transfer-config": (flag,)},
        resources=replace(launch.resources, volumes=tuple(volumes)),
        settings={**launch.settings, "kvCacheOffloading": held},
    )
