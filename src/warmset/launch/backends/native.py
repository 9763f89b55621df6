"""vLLM's own host tier: OffloadingConnector, typed as each version wants it."""

from typing import Any

from warmset.errors import Unsupported
from warmset.launch.amounts import in_bytes, in_gib
from warmset.launch.backends.vllm_server import hybrid_notes, surface_of, vllm_process
from warmset.launch.parts import Conversion, Parts
from warmset.launch.request import LaunchRequest
from warmset.launch.surface import Surface
from warmset.plan.host import Placement, placement, rounding
from warmset.servers import Engine
from warmset.units import format_counted, format_size

CONNECTOR = "OffloadingConnector"


def parts(request: LaunchRequest) -> Parts:
    """The host tier alone."""
    surface = surface_of(request)
    engine = request.engine
    # One flag says it all where a lost block is computed again by default; elsewhere the policy needs the JSON form.
    by_flag = engine.default("kv_offloading_backend") == "native" and (
        engine.default("kv_load_failure_policy") == "recompute"
    )
    transfer_config: dict[str, Any] | None = None
    flags: tuple[str, ...] = ()
    if by_flag:
        conversion = in_gib(
            "--kv-offloading-size",
            request.tier_bytes,
            "GiB total per replica",
            f"{format_size(request.tier_bytes)} over all ranks of one replica",
        )
        flags = (surface.flag(conversion.setting), conversion.value)
    else:
        extra, conversion = host_tier(request, surface)
        transfer_config = surface.transfer_config(CONNECTOR, extra)
    shm_bytes = shared_memory_bytes(request, "CPUOffloadingSpec")
    return Parts(
        server=vllm_process(request, surface, transfer_config=transfer_config, tier_flags=flags),
        transfer_config=transfer_config,
        host_memory_bytes=host_memory_bytes(request),
        shm_bytes=shm_bytes,
        conversions=(conversion,),
        notes=(
            *platform_notes(engine),
            *shm_notes(request, shm_bytes, "CPUOffloadingSpec"),
            *rounding_notes(request),
            *hybrid_notes(request, CONNECTOR),
        ),
    )


def host_memory_bytes(request: LaunchRequest) -> int:
    """What the host gives for the tiers of all data-parallel replicas, the allocator's rounding included."""
    return _placement(request).host_bytes(request.tier_bytes) * request.dp


def rounding_notes(request: LaunchRequest) -> tuple[str, ...]:
    """What to say where that is notably more than the tier's size."""
    said = rounding(_placement(request), request.tier_bytes)
    return () if said is None else (said,)


def _placement(request: LaunchRequest) -> Placement:
    return placement(request.engine, request.backend, request.ranks, request.regions_per_rank, request.pools)


def host_tier(request: LaunchRequest, surface: Surface) -> tuple[dict[str, Any], Conversion]:
    """The extra-config keys that size the host tier, in bytes or (0.11 to 0.13) in blocks per rank."""
    if "cpu_bytes_to_use" in request.engine.extra_config_keys(CONNECTOR):
        return {"cpu_bytes_to_use": request.tier_bytes}, in_bytes("cpu_bytes_to_use", request)
    if request.engine.connector(CONNECTOR) is None:
        surface.transfer_config(CONNECTOR, {})
    return _blocks(request)


def _blocks(request: LaunchRequest) -> tuple[dict[str, Any], Conversion]:
    per_token = request.bytes_per_token_per_rank
    able = next(v for v in request.engine.versions_with("extra_key", "cpu_bytes_to_use"))
    if not per_token:
        raise Unsupported(
            f"vllm {request.engine.version} counts its host tier in blocks: it needs the model's bytes per token",
            hint=f"name a model of the catalogue or a config.json, or use `--engine vllm@{able}`",
        )
    tokens = request.block_size or request.block_tokens
    block_bytes = per_token * tokens
    blocks = int(request.tier_bytes // request.ranks // block_bytes)
    if blocks < 1:
        raise Unsupported(
            f"a tier of `{request.tier_bytes}` bytes is smaller than one block on each rank",
            hint=f"give at least {format_size(block_bytes * request.ranks * 2)}, or use `--engine vllm@{able}`",
        )
    return {"num_cpu_blocks": blocks}, Conversion(
        "num_cpu_blocks",
        str(blocks),
        "blocks per rank",
        int(blocks * block_bytes * request.ranks),
        f"{format_size(request.tier_bytes)} / {format_counted(request.ranks, 'rank')} / ({tokens} tokens × "
        f"{float(per_token):,.0f} bytes per token and rank) = {blocks:,} blocks per rank",
    )


def shared_memory_bytes(request: LaunchRequest, spec: str) -> int:
    """What the tier takes of /dev/shm on the node, all data-parallel replicas; 0 if it lives elsewhere."""
    return request.tier_bytes * request.dp if spec in request.engine.default("dev_shm_users") else 0


def shm_notes(request: LaunchRequest, shm_bytes: int, spec: str) -> tuple[str, ...]:
    """What /dev/shm must have, and what stays there after a crash."""
    if not shm_bytes:
        return ()
    engine = request.engine
    short = (
        "stops the start" if engine.default("dev_shm_checked") else "ends in a bus error, not in a message"
    )
    notes = [
        f"the tier is a file in /dev/shm in vLLM {engine.version}: it needs {format_size(shm_bytes)} free there "
        f"(all data-parallel replicas of the node), and less {short}; "
        + (
            "outside a container, `mount -o remount,size=SIZE /dev/shm` enlarges it"
            if request.target == "shell"
            else "the file sees to it, and the node must have the memory"
        )
    ]
    if spec in (engine.default("dev_shm_stale_after_kill") or ()):
        notes.append(
            "after a SIGKILL the file stays in the pod, and a restarted container finds /dev/shm full: delete the pod"
            if request.target in ("helm", "kserve")
            else "after a SIGKILL the file stays: remove /dev/shm/vllm_offload_*.mmap before the next start"
        )
    return tuple(notes)


def platform_notes(engine: Engine) -> tuple[str, ...]:
    """Where the connector runs."""
    fact = engine.connector(CONNECTOR)
    names = {"cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU"}
    where = ", ".join(names[p] for p in fact.platforms) if fact else ""
    return (f"{CONNECTOR} of vLLM {engine.version} runs on {where}, not on CPU builds",) if where else ()
