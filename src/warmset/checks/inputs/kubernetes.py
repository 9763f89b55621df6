"""Kubernetes objects: whatever holds a list of containers (Deployment, StatefulSet, Pod, LeaderWorkerSet, …)."""

import re
from collections.abc import Iterable, Mapping

from warmset.checks.command import launches, nested_shell, read_flags
from warmset.checks.images import Image, read_image
from warmset.checks.record import DEFAULT_SHM_BYTES, SHM, Resources, Server, ServerLaunch, Volume, quantity
from warmset.checks.shell import split
from warmset.checks.text import Text, Word
from warmset.checks.tree import Node

_GPU = re.compile(r"(nvidia|amd|intel)\.com/(gpu|xpu)")
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.\-]*)\)")
_SERVER_FLAGS: tuple[tuple[str, Server], ...] = (
    ("--kv-offloading", "vllm"),
    ("--kv_offloading", "vllm"),
    ("--kv-transfer-config", "vllm"),
    ("--kv_transfer_config", "vllm"),
    ("--cpu-offload-gb", "vllm"),
    ("--cpu_offload_gb", "vllm"),
    ("--swap-space", "vllm"),
    ("--enable-hierarchical-cache", "sglang"),
    ("--hicache-", "sglang"),
    ("--l1-size-gb", "lmcache-server"),
)


def pod_launches(root: Node) -> list[ServerLaunch]:
    """The servers of every pod template in an object, with the pod's limits and volumes."""
    out: list[ServerLaunch] = []
    for above, node in root.walk():
        containers = node.get("containers") if node.kind == "map" else None
        if containers is not None and containers.kind == "seq":
            for container in containers.items:
                if container.kind == "map":
                    out += _container(container, node, above)
        # Operators that hold one container of their own (Dynamo's graph deployments).
        main = node.get("mainContainer") if node.kind == "map" else None
        if main is not None and main.kind == "map":
            out += _container(main, node, above)
        # Operators that take an engine's name and its arguments (KubeAI's models).
        engine = node.scalar("engine") if node.kind == "map" else None
        if engine is not None and engine.lower() in ("vllm", "sglang") and node.get("args") is not None:
            out += _container(node, node, above)
        model = node.get("predictor", "model") if node.kind == "map" else None
        if model is not None and model.get("args") is not None:
            out += _container(model, node.get("predictor") or node, above)
    return out


def patch_launches(root: Node) -> list[ServerLaunch]:
    """A JSON 6902 patch: the values that it adds to a container's arguments and environment."""
    words: list[Word] = []
    env: dict[str, Word] = {}
    for item in root.items:
        value = item.get("value") if item.kind == "map" and item.get("op") is not None else None
        if value is None:
            if item.kind == "map":
                words_env = pod_launches(item)
                if words_env:
                    return words_env
            continue
        if value.kind == "scalar":
            words.append(value.word)
        elif value.kind == "seq":
            words += [each.word for each in value.items if each.kind == "scalar"]
            env.update(_env_list(value))
        elif value.get("name") is not None and value.get("value") is not None:
            env[value.scalar("name") or ""] = value.get("value").word  # type: ignore[union-attr]
    return _partial(
        words, env, Image(Word("", Text("", root.source, root.start), 0, 1), None, None, None, ""), None
    )


def config_map(root: Node) -> tuple[dict[str, Word], list[Text]]:
    """A ConfigMap's values as environment, and those that look like YAML files."""
    values: dict[str, Word] = {}
    files: list[Text] = []
    data = root.get("data")
    for key, value in data.pairs if data is not None else ():
        if value.kind != "scalar":
            continue
        if key.value.endswith((".yaml", ".yml", ".json")):
            files.append(value.text)
        else:
            values[key.value] = value.word
    return values, files


def pod_resources(container: Node, pod: Node, above: Iterable[Node]) -> Resources:
    """Limits of a container in its pod, and how often the object runs it."""
    volumes = mounted_volumes(container, pod)
    shm = next((v for v in volumes if v.path.rstrip("/") == SHM), None)
    host_ipc = (pod.scalar("hostIPC") or "").lower() == "true"
    limit = container.get("resources", "limits", "memory")
    request = container.get("resources", "requests", "memory")
    gpus = None
    for part in ("limits", "requests"):
        table = container.get("resources", part)
        for key, value in table.pairs if table is not None and table.kind == "map" else ():
            if _GPU.fullmatch(key.value) and value.value.isdigit():
                gpus = gpus or int(value.value[:6])
    replicas = nodes = None
    for node in above:
        if (text := node.scalar("replicas")) is not None and text.isdigit():
            replicas = int(text[:6])
        if (text := node.scalar("leaderWorkerTemplate", "size")) is not None and text.isdigit():
            nodes = int(text[:6])
    # A patch without an image says nothing about the volumes of the object that it changes.
    shm_bytes: int | None = DEFAULT_SHM_BYTES if container.get("image") is not None else None
    if host_ipc:
        shm_bytes = 0
    elif shm is not None:
        shm_bytes = shm.limit_bytes if shm.limit_bytes is not None else 0
    return Resources(
        container=True,
        memory_limit_bytes=quantity(limit.value) if limit is not None else None,
        memory_request_bytes=quantity(request.value) if request is not None else None,
        memory_word=limit.word if limit is not None else request.word if request is not None else None,
        shm_bytes=shm_bytes,
        shm_word=shm.word if shm is not None else None,
        shm_survives_restart=shm is not None,
        gpus=gpus,
        replicas=replicas,
        nodes=nodes,
        volumes=volumes,
        restarts=True,
        runtime="kubernetes",
    )


def container_env(container: Node) -> dict[str, Word]:
    """The environment of a container; values from elsewhere are unknown words."""
    env = _env_list(container.get("env"))
    sources = container.get("envFrom")
    for item in sources.items if sources is not None and sources.kind == "seq" else ():
        for kind in ("configMapRef", "secretRef"):
            name = item.get(kind, "name") if item.kind == "map" else None
            if name is not None and name.kind == "scalar":
                env[f"\0{kind}:{name.value}"] = name.word
    return env


def expand(word: Word, env: Mapping[str, Word]) -> Word:
    """Kubernetes' `$(NAME)`, from the container's own environment."""
    if "$(" not in word.value:
        return word
    match = _REFERENCE.fullmatch(word.value)
    if match is not None and match[1] in env:
        found = env[match[1]]
        return Word(found.value, word.text, word.start, word.end, found.known, found)
    known = all(m[1] in env for m in _REFERENCE.finditer(word.value))
    value = _REFERENCE.sub(lambda m: env[m[1]].value if m[1] in env else m[0], word.value)
    return Word(value[:65_536], word.text, word.start, word.end, known)


def _container(container: Node, pod: Node, above: tuple[Node, ...]) -> list[ServerLaunch]:
    env = container_env(container)
    image_node = container.get("image")
    words = [expand(item.word, env) for part in ("command", "args") for item in scalars(container.get(part))]
    resources = pod_resources(container, pod, above)
    if image_node is not None and image_node.kind == "map":
        image_node = None
    where = image_node.word if image_node is not None else container.word
    image = read_image(where) if image_node is not None else Image(where, None, None, None, "")
    base = image.apply(
        ServerLaunch(
            "unknown", where, resources=resources, origin="kubernetes", name=container.scalar("name") or ""
        )
    )
    found = launches(words, env, base=base)
    extra = env.get("VLLM_ADDITIONAL_ARGS")
    if found and extra is not None:
        found = [_append(launch, extra) for launch in found]
    if found or (words and nested_shell(words) is not None):
        return found
    if image.server is not None and container.get("command") is None and (words or _is_engine(image)):
        found = [read_flags(image.server, where, words, env, base=base)]
        return found if extra is None else [_append(launch, extra) for launch in found]
    if extra is not None:
        words = [*words, *split(extra.body)]
    return _partial(words, env, image, base)


def _is_engine(image: Image) -> bool:
    return "vllm-openai" in image.word.value or "sglang" in image.word.value


def _append(launch: ServerLaunch, extra: Word) -> ServerLaunch:
    words = [*launch.words, *split(extra.body)]
    return read_flags(launch.server, launch.where, words, launch.env, launch.unexported, launch)


def _partial(
    words: list[Word], env: dict[str, Word], image: Image, base: ServerLaunch | None
) -> list[ServerLaunch]:
    """A patch or a bare argument list: the flags themselves tell the server."""
    flat: list[Word] = []
    for each in words:
        flat.extend(split(each.body) if " --" in each.value and not each.value.startswith("{") else [each])
    server = image.server if words and image.server else None
    for each in flat:
        server = server or next((s for flag, s in _SERVER_FLAGS if each.value.startswith(flag)), None)
    if (
        server is None
        and any(name.startswith(("LMCACHE_", "LM_CACHE_")) for name in env)
        and base is not None
    ):
        server = "vllm"
    if server is None:
        return []
    where = flat[0] if flat else image.word
    start = (base or ServerLaunch(server, where, origin="patch")).with_(complete=False)
    return [read_flags(server, where, flat, env, base=start)]


def mounted_volumes(container: Node, pod: Node) -> tuple[Volume, ...]:
    """The volumes that a container mounts, each with its kind and limit."""
    named: dict[str, Node] = {}
    listed = pod.get("volumes")
    for item in listed.items if listed is not None else ():
        if (name := item.scalar("name")) is not None:
            named[name] = item
    out: list[Volume] = []
    mounts = container.get("volumeMounts")
    for mount in mounts.items if mounts is not None else ():
        path, name = mount.scalar("mountPath"), mount.scalar("name")
        if path is None:
            continue
        volume = named.get(name or "")
        if volume is None:
            out.append(Volume(path, "other"))
            continue
        empty = volume.get("emptyDir")
        if empty is not None:
            limit = empty.get("sizeLimit")
            size = quantity(limit.value) if limit is not None else None
            out.append(Volume(path, "emptydir", size, limit.word if limit is not None else empty.word))
        elif volume.get("persistentVolumeClaim") is not None or volume.get("ephemeral") is not None:
            out.append(Volume(path, "pvc", None, volume.word))
        else:
            out.append(
                Volume(path, "host" if volume.get("hostPath") is not None else "other", None, volume.word)
            )
    return tuple(out)


def _env_list(node: Node | None) -> dict[str, Word]:
    env: dict[str, Word] = {}
    if node is None:
        return env
    if node.kind == "map":
        return {k.value: v.word for k, v in node.pairs if v.kind == "scalar"}
    for item in node.items:
        name = item.scalar("name") if item.kind == "map" else None
        if name is None:
            continue
        value = item.get("value")
        if value is not None and value.kind == "scalar":
            env[name] = expand(value.word, env)
        elif item.get("valueFrom") is not None:
            word = (item.get("name") or item).word
            env[name] = Word("", word.text, word.start, word.end, known=False)
    return env


def scalars(node: Node | None) -> list[Node]:
    """A scalar, or the scalars of a sequence."""
    if node is None:
        return []
    if node.kind == "scalar":
        return [node]
    return [item for item in node.items if item.kind == "scalar"]
