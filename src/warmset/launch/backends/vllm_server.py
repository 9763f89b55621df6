"""The vLLM process that every vLLM backend shares."""

from collections.abc import Mapping
from typing import Any

from warmset.errors import Unsupported
from warmset.launch.parts import Process
from warmset.launch.request import LaunchRequest
from warmset.launch.surface import Surface, compact
from warmset.servers import inspected

IMAGE = "vllm/vllm-openai:v{}"
PORT = 8000


def surface_of(request: LaunchRequest) -> Surface:
    """The names of the request's vLLM; Unsupported for another server."""
    engine = request.engine
    if engine.server != "vllm":
        raise Unsupported(
            f"backend `{request.backend}` is a tier of vLLM, not of {engine.server}",
            hint=f"use `--engine vllm@{inspected('vllm')[-1]}`, or `--backend hicache` with SGLang",
        )
    return Surface(engine)


def vllm_process(
    request: LaunchRequest,
    surface: Surface,
    *,
    transfer_config: Mapping[str, Any] | None = None,
    tier_flags: tuple[str, ...] = (),
    env: Mapping[str, str] | None = None,
    image: str | None = None,
    folder: str = "",
) -> Process:
    """`vllm serve`, with the shape of the server and its tier."""
    argv = ["vllm", "serve", request.served_model]
    for name, value, default in (
        ("--tensor-parallel-size", request.tp, 1),
        ("--pipeline-parallel-size", request.pp, 1),
        ("--data-parallel-size", request.dp, 1),
        ("--kv-cache-dtype", _kv_dtype(request.kv_dtype), "auto"),
        ("--block-size", request.block_size, None),
        ("--max-model-len", request.max_model_len, None),
        ("--port", request.port, None),
    ):
        if value != default:
            argv += [surface.flag(name), str(value)]
    argv += tier_flags
    if transfer_config is not None:
        argv += [surface.flag("--kv-transfer-config"), compact(transfer_config)]
    for name in env or ():
        surface.env(name)
    return Process(
        "vllm",
        tuple(argv),
        image or IMAGE.format(request.engine.version),
        request.port or PORT,
        dict(env or {}),
        folder,
    )


def _kv_dtype(name: str) -> str:
    """vLLM's own name; `fp16` and `bf16` mean the model's own type, which is what `auto` is."""
    return "auto" if name in ("fp16", "bf16") else name


def hash_seed(request: LaunchRequest) -> tuple[dict[str, str], tuple[str, ...]]:
    """PYTHONHASHSEED for a tier that outlives the process or is shared, where the version needs it."""
    if request.engine.default("hash_seed") != "random":
        return {}, ()
    return {"PYTHONHASHSEED": "0"}, (
        f"PYTHONHASHSEED is set because vLLM {request.engine.version} hashes blocks from a random seed: "
        "without it, nothing on the lower tier is found after a restart or by another replica; "
        "use the same value everywhere",
    )


def hybrid_notes(request: LaunchRequest, connector: str) -> tuple[str, ...]:
    """What the connector does to models with sliding-window or state layers in this version."""
    engine = request.engine
    if request.one_kind_of_cache:
        return ()
    rule = engine.default("hybrid_manager_with_connector")
    fact = engine.connector(connector)
    if rule == "by_connector" and fact is not None and fact.hybrid:
        return ()
    return (
        f"{connector} turns vLLM's hybrid KV-cache manager off in this version: sliding-window layers then keep "
        "the whole context, and models with recurrent state may not start",
    )
