"""LMCache inside the vLLM workers: LMCacheConnectorV1 and LMCACHE_* variables."""

from warmset.launch.amounts import decimal_gib, in_gib, in_gib_per_rank
from warmset.launch.backends.vllm_server import hybrid_notes, surface_of, vllm_process
from warmset.launch.parts import Conversion, Parts
from warmset.launch.request import LaunchRequest
from warmset.launch.surface import Surface, compact
from warmset.servers import Engine, engine
from warmset.units import GIB, format_size

CONNECTOR = "LMCacheConnectorV1"
# Carries vLLM and LMCache together; the plain vLLM image need not have LMCache.
IMAGE = "lmcache/vllm-openai:latest"
# Of all images of LMCache; not on the path of this one (LMCache's docker/Dockerfile, production-stack issue 454).
FOLDER = "/opt/venv/bin"
# What ranks that store nothing still pin; LMCache's own examples for MLA models use 1.
_OTHERS_BYTES = GIB


def parts(request: LaunchRequest) -> Parts:
    """A host tier, and with `disk_bytes` a disk tier, in every worker."""
    surface = surface_of(request)
    lmcache = request.lmcache or engine("lmcache")
    names = Surface(lmcache)
    config = surface.transfer_config(CONNECTOR, {})
    first_alone = _first_rank_alone(request, lmcache)
    host, sizes = _host(request, names, first_alone=first_alone)
    env = {names.env("LMCACHE_CHUNK_SIZE"): str(chunk_tokens(lmcache, request)), **sizes}
    conversions = [host]
    if request.disk_bytes is not None:
        limit = names.env("LMCACHE_MAX_LOCAL_DISK_SIZE")
        disk = (
            in_gib(limit, request.disk_bytes, "GiB per rank", "only the first rank writes")
            if first_alone
            else in_gib_per_rank(limit, request.disk_bytes, request)
        )
        env |= {
            names.env("LMCACHE_LOCAL_DISK"): f"file://{request.disk_path.rstrip('/')}/",
            disk.setting: disk.value,
        }
        conversions.append(disk)
    return Parts(
        server=vllm_process(
            request,
            surface,
            transfer_config=config,
            # The builtin hash of LMCache starts from Python's own seed: every worker needs the same.
            env={"PYTHONHASHSEED": "0"} if lmcache.default("in_process_hash_algorithm") == "builtin" else {},
            image=IMAGE,
            folder=FOLDER,
        ),
        transfer_config=config,
        lmcache_env=env,
        host_memory_bytes=(request.tier_bytes + (_OTHERS_BYTES * (request.ranks - 1) if first_alone else 0))
        * request.dp,
        disk_path=request.disk_path if request.disk_bytes is not None else None,
        conversions=tuple(conversions),
        notes=(
            *lmcache.notes,
            *_age_notes(request, lmcache),
            *version_notes(request, lmcache),
            chunk_note(lmcache, request),
            "LMCache counts its size for each worker process, not for the host"
            + (
                ": all ranks cache the same latents and the first alone stores them, so it gets the whole tier"
                if first_alone
                else ""
            ),
            "PYTHONHASHSEED must be the same in all workers and replicas: LMCache's builtin hash depends on it",
            "lmcache:* metrics appear on vLLM's /metrics only with PROMETHEUS_MULTIPROC_DIR set to an empty directory",
            *hybrid_notes(request, CONNECTOR),
        ),
    )


def _first_rank_alone(request: LaunchRequest, lmcache: Engine) -> bool:
    alone = bool(lmcache.default("first_rank_only_for_mla"))
    return alone and request.ranks_cache_the_same and request.tp > 1 and request.pp == 1


def _host(request: LaunchRequest, names: Surface, *, first_alone: bool) -> tuple[Conversion, dict[str, str]]:
    """The host tier as LMCache counts it, and the variables that say so."""
    each = names.env("LMCACHE_MAX_LOCAL_CPU_SIZE")
    if not first_alone:
        host = in_gib_per_rank(each, request.tier_bytes, request)
        return host, {host.setting: host.value}
    host = in_gib(
        "first_rank_max_local_cpu_size",
        request.tier_bytes,
        "GiB on the first rank",
        f"{format_size(request.tier_bytes)} on the first of {request.ranks} ranks, "
        f"{format_size(_OTHERS_BYTES)} on each other",
    )
    more = compact({host.setting: float(host.value)})
    return host, {each: decimal_gib(_OTHERS_BYTES), names.env("LMCACHE_EXTRA_CONFIG"): more}


def chunk_tokens(lmcache: Engine, request: LaunchRequest) -> int:
    """Tokens per chunk: LMCache's own default, raised to the device block where that is larger."""
    default: int = lmcache.default("chunk_size_tokens")
    block = request.block_size or 1
    return -(-default // block) * block


def chunk_note(lmcache: Engine, request: LaunchRequest) -> str:
    """Says what the chunk choice means."""
    return (
        f"chunks of {chunk_tokens(lmcache, request)} tokens (LMCache's default, a multiple of the device block): "
        "a shorter prefix is never stored, and the tail of a prompt that fills no chunk is computed again"
    )


def version_notes(request: LaunchRequest, lmcache: Engine) -> tuple[str, ...]:
    """Says which LMCache was assumed."""
    if request.lmcache is not None:
        return ()
    return (f"LMCache {lmcache.version} is assumed; name yours with `--lmcache VERSION`",)


def _age_notes(request: LaunchRequest, lmcache: Engine) -> tuple[str, ...]:
    rule = request.engine.rule("lmcache_in_process")
    if rule is not None and rule.value == "broken":
        return (
            f"outdated: LMCache in-process is not maintained and is broken since the KV layout of vLLM {rule.since}; "
            "use `--backend lmcache` (LMCache's server) or `--backend native`",
        )
    if request.engine.default("lmcache_server") == "works" or not lmcache.default("in_process_maintained"):
        return (
            "outdated: LMCache in-process is no longer maintained; newer servers use `--backend lmcache`",
        )
    return ()
