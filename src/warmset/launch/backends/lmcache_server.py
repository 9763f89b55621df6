"""LMCache as a server of its own, with vLLM as its client (LMCacheMPConnector)."""

from warmset.errors import InputError, Unsupported
from warmset.launch.amounts import in_gib
from warmset.launch.backends.lmcache_inprocess import FOLDER, chunk_note, chunk_tokens, version_notes
from warmset.launch.backends.vllm_server import hybrid_notes, surface_of, vllm_process
from warmset.launch.parts import Parts, Process
from warmset.launch.request import LaunchRequest
from warmset.launch.surface import Surface, compact, refuse
from warmset.servers import Engine, engine, inspected
from warmset.units import format_size

CONNECTOR = "LMCacheMPConnector"
OWN_CLASS = "lmcache.integration.vllm.lmcache_mp_connector"
IMAGE = "lmcache/standalone:latest"
# Where the client finds the server, by target: beside it, in the next container, or on the pod's node.
_HOSTS = {"shell": "localhost", "compose": "lmcache", "helm": "$(NODE_IP)", "kserve": "$(NODE_IP)"}


def parts(request: LaunchRequest) -> Parts:
    """The cache server and its client. The server's memory is shared by all data-parallel replicas."""
    surface = surface_of(request)
    lmcache = request.lmcache or engine("lmcache")
    _check_pair(request, lmcache)
    _check_port(request, lmcache)
    names = Surface(lmcache)
    in_pods = request.target in ("helm", "kserve")
    if in_pods and not lmcache.has_flag("--isolated-ipc"):
        able = lmcache.versions_with("flag", "--isolated-ipc")[0]
        raise Unsupported(
            f"lmcache {lmcache.version} needs its clients in the same IPC namespace, which pods do not share",
            hint=f"use `--lmcache {able}`, or `--as compose`",
        )
    extra: dict[str, object] = {
        "lmcache.mp.host": f"tcp://{_HOSTS[request.target]}",
        "lmcache.mp.port": lmcache.default("server_port"),
    }
    fields: dict[str, object] = {}
    if in_pods:
        extra["lmcache.mp.isolated_ipc"] = True
        # Only LMCache's own class reads that key; vLLM's would ignore it in silence.
        fields["kv_connector_module_path"] = OWN_CLASS
    config = surface.transfer_config(CONNECTOR, extra, beside=lmcache, **fields)
    total_bytes = request.tier_bytes * request.dp
    size = in_gib(
        names.flag("--l1-size-gb"),
        total_bytes,
        "GiB total for the server",
        (f"{format_size(request.tier_bytes)} × {request.dp} replicas = " if request.dp > 1 else "")
        + f"{format_size(total_bytes)}, shared by all clients of the server",
    )
    return Parts(
        server=vllm_process(request, surface, transfer_config=config),
        cache_server=_server(request, lmcache, names, size.value),
        transfer_config=config,
        host_memory_bytes=total_bytes,
        disk_path=request.disk_path if request.disk_bytes is not None else None,
        conversions=(size,),
        notes=(
            *lmcache.notes,
            *version_notes(request, lmcache),
            chunk_note(lmcache, request),
            f"LMCache's metrics are on its HTTP port, {lmcache.default('metrics_port')}, not on vLLM's",
            "both processes need the same GPUs in sight: the server copies through CUDA IPC",
            *_disk_notes(request),
            *(() if in_pods else _hybrid(request)),
        ),
    )


def _check_pair(request: LaunchRequest, lmcache: Engine) -> None:
    if request.engine.default("lmcache_server") is None:
        able = [v for v in inspected("vllm") if engine(f"vllm@{v}").default("lmcache_server")]
        refuse(
            request.engine,
            "is not known to work with LMCache's server (in-process: `--backend lmcache-inprocess`)",
            tuple(able),
        )
    if not lmcache.default("mp_reads_vllm_0_20_layouts"):
        able = [
            v for v in inspected("lmcache") if engine(f"lmcache@{v}").default("mp_reads_vllm_0_20_layouts")
        ]
        raise Unsupported(
            f"lmcache {lmcache.version} has no server that reads the KV layout of vLLM {request.engine.version}",
            hint=f"use `--lmcache {able[0]}` or newer",
        )


def _check_port(request: LaunchRequest, lmcache: Engine) -> None:
    """Side by side in one shell, both servers cannot listen on the same port."""
    taken = (lmcache.default("server_port"), lmcache.default("metrics_port"))
    if request.target == "shell" and request.port in taken:
        raise InputError(
            f"`--port {request.port}` is one of LMCache's own on this host, {taken[0]} and {taken[1]}",
            hint="choose another port, such as `--port 8000`",
        )


def _server(request: LaunchRequest, lmcache: Engine, names: Surface, size: str) -> Process:
    argv = [*lmcache.default("server_command").split(), names.flag("--l1-size-gb"), size]
    argv += [names.flag("--eviction-policy"), "LRU"]
    argv += [names.flag("--chunk-size"), str(chunk_tokens(lmcache, request))]
    if request.target != "shell":
        # In a container of its own, `localhost` would be heard by nobody.
        argv += [names.flag("--host"), "0.0.0.0", names.flag("--http-host"), "0.0.0.0"]  # noqa: S104
    if request.target in ("helm", "kserve"):
        argv.append(names.flag("--isolated-ipc"))
    if request.disk_bytes is not None:
        argv += [names.flag("--l2-adapter"), compact({"type": "fs", "base_path": request.disk_path})]
    return Process("lmcache", tuple(argv), IMAGE, lmcache.default("server_port"), folder=FOLDER)


def _disk_notes(request: LaunchRequest) -> tuple[str, ...]:
    if request.disk_bytes is None:
        return ()
    return (
        f"LMCache's `fs` tier has no size limit: give it a volume of {format_size(request.disk_bytes * request.dp)}",
    )


def _hybrid(request: LaunchRequest) -> tuple[str, ...]:
    notes = hybrid_notes(request, CONNECTOR)
    if not notes:
        return ()
    return (
        *notes,
        f'for such a model add `"kv_connector_module_path":"{OWN_CLASS}"`: LMCache\'s own class supports it',
    )
