"""Values of the vLLM production-stack chart: the command and environment that the chart renders from them."""

from warmset.checks.command import read_flags
from warmset.checks.images import read_image
from warmset.checks.inputs.settings import field_flag
from warmset.checks.record import SHM, Flag, Resources, ServerLaunch, Volume, quantity, to_number, truthy
from warmset.checks.text import Word
from warmset.checks.tree import Node

# What the chart passes to vLLM from vllmConfig; other fields that it knows are for the chart alone.
_FLAGS = {
    "maxModelLen": "--max-model-len",
    "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "cpuOffloadGB": "--cpu-offload-gb",
    "maxLoras": "--max-loras",
}
_KV = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
_SHM_DEFAULT = 20 * 2**30


def chart_launches(root: Node) -> tuple[list[ServerLaunch], list[ServerLaunch]]:
    """The engines of `servingEngineSpec.modelSpec`, and the cache servers."""
    cache = root.get("cacheserverSpec")
    cache_on = (
        cache is not None
        and cache.kind == "map"
        and bool(cache.pairs)
        and truthy(cache.scalar("enabled") or "true")
    )
    spec = root.get("servingEngineSpec")
    models = spec.get("modelSpec") if spec is not None else None
    listed = models.items if models is not None and models.kind == "seq" else []
    engines = [_engine(m, cache if cache_on else None, spec) for m in listed if m.kind == "map"]
    servers = [_cache_server(root, cache)] if cache_on and cache is not None else []
    return engines, servers


def runtime_launches(root: Node) -> list[ServerLaunch]:
    """The operator's VLLMRuntime object: the same fields, its own spelling of `lmCacheConfig`."""
    spec = root.get("spec")
    if spec is None or spec.kind != "map":
        return []
    where = (root.key("kind") or root).word
    launch = _fields(ServerLaunch("vllm", where, origin="operator", complete=False), spec.get("vllmConfig"))
    config = spec.get("lmCacheConfig")
    if config is not None and truthy(config.scalar("enabled") or "false"):
        launch = _lmcache(launch, config, remote=config.get("remoteUrl"))
    deployment = spec.get("deploymentConfig")
    if deployment is not None:
        memory = deployment.get("resources", "memory")
        replicas = deployment.scalar("replicas")
        launch = launch.with_(
            resources=Resources(
                container=True,
                memory_request_bytes=quantity(memory.value) if memory is not None else None,
                memory_word=memory.word if memory is not None else None,
                replicas=int(replicas) if replicas and replicas.isdigit() else None,
                runtime="kubernetes",
            )
        )
        name = deployment.get("image", "name")
        if name is not None:
            launch = read_image(name.word).apply(launch)
    return [launch]


def _engine(model: Node, cache: Node | None, spec: Node | None) -> ServerLaunch:
    name = model.get("name")
    where = (name if name is not None and name.kind == "scalar" else model).word
    launch = ServerLaunch("vllm", where, origin="helm", name=model.scalar("name") or "")
    url = model.get("modelURL")
    config = model.get("vllmConfig")
    words = [url.word] if url is not None and url.kind == "scalar" else []
    extra = config.get("extraArgs") if config is not None else None
    words += [item.word for item in extra.items if item.kind == "scalar"] if extra is not None else []
    env = _environment(model)
    launch = read_flags("vllm", where, words, env, base=launch)
    launch = _fields(launch, config)
    lmcache = model.get("lmcacheConfig")
    on = lmcache is not None and truthy(lmcache.scalar("enabled") or "false")
    if on and lmcache is not None:
        launch = _lmcache(launch, lmcache, remote=None)
        if cache is not None:
            held = Word("lm://cache-server-service:80", cache.word.text, 0, 1)
            launch = launch.with_(env={"LMCACHE_REMOTE_URL": held, **launch.env})
    # The chart sets a hash seed for every engine.
    launch = launch.with_(
        env={"PYTHONHASHSEED": Word("123", where.text, where.start, where.end), **launch.env}
    )
    launch = launch.with_(resources=_resources(model, config), settings=_settings(model))
    return _image(launch, model, spec)


def _fields(launch: ServerLaunch, config: Node | None) -> ServerLaunch:
    """Flags from vllmConfig; without `enablePrefixCaching: true` the chart switches prefix caching off."""
    if config is None or config.kind != "map":
        return launch
    flags = dict(launch.flags)
    for key, value in config.pairs:
        if key.value in _FLAGS and (flag := field_flag(key, value)) is not None:
            name = _FLAGS[key.value]
            flags.setdefault(name, (Flag(name, flag.word, flag.value),))
    caching = config.get("enablePrefixCaching")
    given = "--enable-prefix-caching" in flags or "--no-enable-prefix-caching" in flags
    if caching is None or not truthy(caching.value):
        place = (config.key("enablePrefixCaching") or config.pairs[0][0] if config.pairs else config).word
        if not given:
            flags["--no-enable-prefix-caching"] = (Flag("--no-enable-prefix-caching", place, None),)
    return launch.with_(flags=flags)


def _lmcache(launch: ServerLaunch, config: Node, remote: Node | None) -> ServerLaunch:
    key = (config.key("enabled") or config).word
    flag = Flag(
        "--kv-transfer-config",
        Word("--kv-transfer-config", key.text, key.start, key.end),
        Word(_KV, key.text, key.start, key.end),
    )
    kv = launch.flags.get("--kv-transfer-config", ())
    env = dict(launch.env)
    size = config.get("cpuOffloadingBufferSize")
    number = to_number(size.value) if size is not None else None
    if size is not None and number is not None and int(number) > 0:
        env.setdefault("LMCACHE_LOCAL_CPU", Word("True", size.text, 0, max(1, len(size.value))))
        env.setdefault("LMCACHE_MAX_LOCAL_CPU_SIZE", Word(size.value, size.text, 0, max(1, len(size.value))))
    disk = config.get("diskOffloadingBufferSize")
    if disk is not None and disk.kind == "scalar":
        env.setdefault("LMCACHE_MAX_LOCAL_DISK_SIZE", disk.word)
    if remote is not None and remote.kind == "scalar":
        env.setdefault("LMCACHE_REMOTE_URL", remote.word)
    flags = {**launch.flags, "--kv-transfer-config": (flag, *kv)}
    return launch.with_(flags=flags, env=env)


def _settings(model: Node) -> dict[str, Word]:
    """Values by path, for the rules about the chart itself."""
    out: dict[str, Word] = {}
    for table in ("", "lmcacheConfig", "lmCacheConfig", "vllmConfig"):
        node = model if not table else model.get(table)
        for key, value in node.pairs if node is not None and node.kind == "map" else ():
            path = f"{table}.{key.value}" if table else key.value
            out[path] = value.word if value.kind == "scalar" else key.word
            out[path + "\0key"] = key.word
    return out


def _environment(model: Node) -> dict[str, Word]:
    from warmset.checks.inputs.kubernetes import container_env

    return container_env(model)


def _resources(model: Node, config: Node | None) -> Resources:
    request, limit = model.get("requestMemory"), model.get("limitMemory")
    memory = limit or request
    shm = model.get("shmSize")
    tp = config.scalar("tensorParallelSize") if config is not None else None
    mounted = tp is not None
    shm_bytes = (quantity(shm.value) if shm is not None else _SHM_DEFAULT) if mounted else 64 * 2**20
    replicas, gpus = model.scalar("replicaCount"), model.scalar("requestGPU")
    volumes: list[Volume] = []
    mounts = model.get("extraVolumeMounts")
    if mounts is not None and mounts.kind == "seq":
        from warmset.checks.inputs.kubernetes import mounted_volumes

        volumes = list(
            mounted_volumes(
                _view(model, "volumeMounts", mounts), _view(model, "volumes", model.get("extraVolumes"))
            )
        )
    for volume in volumes:
        if volume.path.rstrip("/") == SHM:
            shm_bytes = volume.limit_bytes or 0
    return Resources(
        container=True,
        memory_limit_bytes=quantity(limit.value) if limit is not None else None,
        memory_request_bytes=quantity(request.value) if request is not None else None,
        memory_word=memory.word if memory is not None else None,
        shm_bytes=shm_bytes,
        shm_word=shm.word if shm is not None else None,
        gpus=int(gpus) if gpus and gpus.isdigit() else None,
        replicas=int(replicas) if replicas and replicas.isdigit() else None,
        volumes=tuple(volumes),
        restarts=True,
        runtime="helm",
    )


def _view(model: Node, name: str, value: Node | None) -> Node:
    node = Node("map", model.source, model.start, model.end)
    if value is not None:
        node.pairs = [(Node("scalar", model.source, value.start, value.end, name), value)]
    return node


def _image(launch: ServerLaunch, model: Node, spec: Node | None) -> ServerLaunch:
    tag = model.get("tag")
    if tag is None or tag.kind != "scalar":
        return launch
    repository = model.scalar("repository") or "lmcache/vllm-openai"
    return read_image(Word(f"{repository}:{tag.value}", tag.text, 0, max(1, len(tag.value)))).apply(launch)


def _cache_server(root: Node, cache: Node) -> ServerLaunch:
    where = (root.key("cacheserverSpec") or cache).word
    limit = cache.get("resources", "limits", "memory") or cache.get("limitMemory")
    resources = Resources(
        container=True,
        memory_limit_bytes=quantity(limit.value) if limit is not None else None,
        memory_word=limit.word if limit is not None else None,
        runtime="helm",
    )
    return ServerLaunch("lmcache-store", where, resources=resources, origin="helm", name="cacheserver")
