"""Configuration files of the servers themselves: LMCache YAML, vLLM's `--config` YAML, operators' fields."""

from warmset.checks.record import Flag, ServerLaunch
from warmset.checks.text import Word
from warmset.checks.tree import Node

LMCACHE_KEYS = frozenset(
    [
        "chunk_size",
        "local_cpu",
        "max_local_cpu_size",
        "reserve_local_cpu_size",
        "local_disk",
        "max_local_disk_size",
        "remote_url",
        "remote_serde",
        "save_decode_cache",
        "save_unfull_chunk",
        "pre_caching_hash_algorithm",
        "enable_p2p",
        "cache_policy",
        "remote_storage_plugins",
        "use_layerwise",
        "enable_async_loading",
        "gds_path",
        "cufile_buffer_size",
    ]
)
# Spellings of LMCache's first configuration format, and what replaced them.
LMCACHE_OLD_KEYS = frozenset(("local_device", "max_local_cache_size", "pipelined_backend", "remote_device"))
MOONCAKE_KEYS = frozenset(("global_segment_size", "local_buffer_size", "master_server_address"))

_CONFIG_KEYS = frozenset(
    [
        "kv-transfer-config",
        "kv_transfer_config",
        "kv-offloading-size",
        "kv_offloading_size",
        "kv-offloading-backend",
        "kv_offloading_backend",
        "cpu-offload-gb",
        "cpu_offload_gb",
        "swap-space",
        "swap_space",
        "tensor-parallel-size",
        "tensor_parallel_size",
        "gpu-memory-utilization",
        "gpu_memory_utilization",
        "max-model-len",
        "max_model_len",
        "enable-prefix-caching",
        "enable_prefix_caching",
        "no-enable-prefix-caching",
        "hicache-size",
        "hicache_size",
        "hicache-ratio",
        "hicache_ratio",
        "enable-hierarchical-cache",
        "enable_hierarchical_cache",
    ]
)


def looks_like_vllm_config(root: Node) -> bool:
    """Whether a mapping is the file that `vllm serve --config` (or SGLang's `--config`) reads."""
    keys = root.keys()
    return "apiVersion" not in keys and bool(keys & _CONFIG_KEYS)


def config_launch(root: Node) -> ServerLaunch:
    """The launch that a `--config` file describes: its keys are the flags without dashes."""
    flags: dict[str, tuple[Flag, ...]] = {}
    positionals: list[Word] = []
    words: list[Word] = []
    sglang = any("hicache" in key or "hierarchical" in key for key in root.keys())  # noqa: SIM118
    for key, value in root.pairs:
        name = "--" + key.value.replace("_", "-").lstrip("-")
        word = _named(key, name)
        words.append(value.word)
        if key.value in ("model", "model_tag", "model-path", "model_path") and value.kind == "scalar":
            positionals.append(value.word)
            continue
        if value.kind == "scalar" and value.style is None and value.value.lower() in ("true", "false"):
            switch = name if value.value.lower() == "true" else "--no-" + name[2:]
            flags[switch] = (Flag(switch, word, None),)
        else:
            flags[name] = (Flag(name, word, value.word if value.kind == "scalar" else json_word(value)),)
    where = root.pairs[0][0].word
    return ServerLaunch(
        "sglang" if sglang else "vllm",
        where,
        words=tuple(words),
        flags=flags,
        positionals=tuple(positionals),
        origin="config",
        complete=False,
    )


def operator_launches(root: Node) -> list[ServerLaunch]:
    """Objects that hold fields instead of flags: an operator's `vllmConfig`, Ray Serve's `engine_kwargs`."""
    out: list[ServerLaunch] = []
    if (
        root.kind != "map"
        or root.keys() & {"servingEngineSpec", "modelSpec"}
        or root.scalar("kind") == "VLLMRuntime"
    ):
        return out
    for above, node in root.walk():
        config = node.get("vllmConfig") if node.kind == "map" else None
        if config is not None and config.kind == "map":
            out.append(_operator(node, config, above))
        arguments = node.get("engine_kwargs") if node.kind == "map" else None
        if arguments is not None and arguments.kind == "map" and arguments.pairs:
            model = node.get("model_loading_config", "model_source")
            launch = config_launch(arguments)
            out.append(
                launch.with_(positionals=(model.word,)) if model and model.kind == "scalar" else launch
            )
    return out


def _operator(node: Node, config: Node, above: tuple[Node, ...]) -> ServerLaunch:
    from warmset.checks.images import read_image

    where = (node.key("vllmConfig") or node).word
    flags = {
        flag.name: (flag,) for key, value in config.pairs if (flag := field_flag(key, value)) is not None
    }
    launch = ServerLaunch(
        "vllm",
        where,
        words=tuple(v.word for _, v in config.pairs),
        flags=flags,
        origin="operator",
        complete=False,
    )
    for parent in (node, *reversed(above)):
        image = parent.get("image")
        if image is not None and image.kind == "scalar":
            return read_image(image.word).apply(launch)
        if image is not None and (tag := image.get("tag")) is not None:
            repository = image.scalar("repository") or "vllm/vllm-openai"
            joined = Word(f"{repository}:{tag.value}", tag.text, 0, len(tag.value))
            return read_image(joined).apply(launch)
    return launch


def field_flag(key: Node, value: Node) -> Flag | None:
    """A camelCase field as the flag that it stands for: `cpuOffloadGB` → `--cpu-offload-gb`."""
    if value.kind not in ("scalar", "map"):
        return None
    name = "--" + _kebab(key.value)
    word = _named(key, name)
    if value.kind == "map":
        return Flag(name, word, json_word(value))
    lowered = value.value.lower()
    if value.style is None and lowered in ("true", "false"):
        if lowered == "false":
            name = "--no-" + name[2:]
        return Flag(name, Word(name, word.text, word.start, word.end), None)
    return Flag(name, word, value.word)


def json_word(node: Node) -> Word:
    """A YAML mapping where a flag expects JSON."""
    import json

    return Word(json.dumps(node.python()), node.word.text, 0, 1)


def _named(key: Node, name: str) -> Word:
    text = key.text
    return Word(name, text, 0, len(text.value))


def _kebab(name: str) -> str:
    out: list[str] = []
    for i, character in enumerate(name):
        before, after = name[i - 1 : i], name[i + 1 : i + 2]
        if character.isupper() and i and (before.islower() or before.isdigit() or after.islower()):
            out.append("-")
        out.append(character.lower())
    return "".join(out).replace("_", "-")
