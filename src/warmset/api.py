"""warmset from Python: one function per question, over the same records as the command line.

>>> import warmset
>>> p = warmset.plan(layers=32, kv_heads=8, head_dim=128, kv_dtype="fp16", sessions=200, context_tokens=8192,
...                  hbm_kv="28GiB")
>>> p.decision.verdict, p.tier.recommended_bytes // 2**30
('offload', 230)
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmset.errors import InputError
from warmset.geometry import Footprint, Geometry, load, load_or_uniform
from warmset.geometry.catalogue import hub_id
from warmset.plan.charge import NATIVE, all_replicated, pools, regions
from warmset.plan.make import make_plan
from warmset.plan.record import Plan
from warmset.plan.request import PlanRequest, choose_engine
from warmset.plan.sessions import warm_sessions
from warmset.plan.source import log_text, metrics_text
from warmset.plan.spread import check_spread
from warmset.servers import Engine
from warmset.servers import engine as parse_engine
from warmset.units import MIB, parse_bytes

if TYPE_CHECKING:
    from warmset.launch import Launch
    from warmset.traces.options import ReadOptions
    from warmset.traces.record import Trace

Size = int | str
Model = str | Path | Mapping[str, Any] | Geometry


def geometry(
    model: Model | None = None,
    *,
    layers: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    download: bool = False,
) -> Geometry:
    """A model's geometry: from a name, a config.json (path, folder or dict), or from three explicit numbers.

    Raises InputError for neither or both of these, and what `warmset.geometry.load` raises.
    """
    return load_or_uniform(model, layers=layers, kv_heads=kv_heads, head_dim=head_dim, download=download)


def footprint(
    model: Model | None = None,
    *,
    layers: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    download: bool = False,
    **deployment: Any,
) -> Footprint:
    """What a model's KV cache costs; `deployment` is that of `Geometry.footprint` (`kv_dtype`, `tp`, …)."""
    found = geometry(model, layers=layers, kv_heads=kv_heads, head_dim=head_dim, download=download)
    return found.footprint(**deployment)


def plan(
    model: Model | None = None,
    *,
    sessions: int | None = None,
    context_tokens: int | None = None,
    turns: int | None = None,
    tokens_per_turn: int | None = None,
    shared_prefix_tokens: int = 0,
    trace: "str | Path | Trace | None" = None,
    reading: "ReadOptions | None" = None,
    layers: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    download: bool = False,
    gpus: int | None = None,
    tp: int | None = None,
    pp: int = 1,
    dp: int = 1,
    hbm_kv: Size | None = None,
    metrics: str | Path | None = None,
    log: str | Path | None = None,
    host_ram: Size | None = None,
    container_limit: Size | None = None,
    shm: Size | None = None,
    engine: Engine | str | None = None,
    lmcache: Engine | str | None = None,
    storage: str | Sequence[str] = (),
    headroom: float = 0.15,
    load_gbps: float | None = None,
    prefill_tps: float | None = None,
    ram_price: float | None = None,
    **more: Any,
) -> Plan:
    """Decide whether to offload KV cache, and size the tier.

    Sizes are bytes, or text such as `"28GiB"`; they count one data-parallel replica with all its ranks, as
    `sessions` does. `more` is passed on to `warmset.plan.PlanRequest`: `kv_dtype`, `dcp`, `block_size`,
    `max_model_len`, `backend`, `gpu`, `gpu_memory_utilization`, `kv_cache_tokens`, `replicas`, …

    Args:
        model: a name, config.json, or `Geometry`; else `layers`, `kv_heads` and `head_dim`.
        sessions: sessions that should stay warm; may be left out with a trace.
        context_tokens: tokens of one session; or `turns` × `tokens_per_turn` beyond `shared_prefix_tokens`.
        trace: traffic of one replica (`path`, `format:path` or a Trace), which then decides the size; `reading` says
            how to read it. `within_points` are the percentage points below the reachable hit rate that are fine.
        gpus: devices in all; `tp` follows from it where it is not given.
        metrics, log: a running server's `/metrics` (URL or file), its start-up log; `-` is standard input.
        storage: lower tiers to consider, such as `"nvme-gen4"`.
        load_gbps: measured load speed in 10^9 bytes per second; prefill_tps: measured prefill in tokens per second.
        ram_price: price of one GiB of host memory.

    Raises:
        InputError: for contradictions and impossible numbers; UnknownName for unknown names; Unsupported for what
            the server version cannot do.
    """
    found = geometry(model, layers=layers, kv_heads=kv_heads, head_dim=head_dim, download=download)
    check_spread(found, gpus, tp, pp, dp)
    traffic = None if trace is None else _trace(trace, reading)
    sessions_given = sessions is not None
    if traffic is not None and sessions is None:
        if context_tokens is not None or turns is not None or tokens_per_turn is not None:
            raise InputError(
                "a context without `--sessions` says nothing beside a trace",
                hint="give both, to compare the session rule, or neither: it is then read off the trace",
            )
        sessions, longest = warm_sessions(traffic)
        limits = (longest, found.max_context_tokens, more.get("max_model_len"))
        # A plan says how many prompts a model or server would refuse; they are no reason to say nothing else.
        context_tokens = min(limit for limit in limits if limit is not None)
    if sessions is None:
        raise InputError(
            "neither `--sessions` nor `--trace` says what should stay warm",
            hint="give `--sessions 200 --context 8192`, or recorded traffic by `--trace FILE`",
        )
    request = PlanRequest(
        geometry=found,
        sessions=sessions,
        context_tokens=grown_context(context_tokens, turns, tokens_per_turn, shared_prefix_tokens),
        sessions_given=sessions_given,
        trace=traffic,
        shared_prefix_tokens=shared_prefix_tokens,
        tp=devices(gpus, tp, pp, dp),
        pp=pp,
        dp=dp,
        engine=parse_engine(engine) if isinstance(engine, str) else engine,
        lmcache=lmcache_engine(lmcache),
        hbm_kv_bytes=_bytes(hbm_kv, "hbm_kv"),
        metrics=None if metrics is None else metrics_text(str(metrics)),
        log=None if log is None else log_text(str(log)),
        host_ram_bytes=_bytes(host_ram, "host_ram"),
        container_limit_bytes=_bytes(container_limit, "container_limit"),
        dev_shm_bytes=_bytes(shm, "shm"),
        headroom_ratio=headroom,
        storage=(storage,) if isinstance(storage, str) else tuple(storage),
        prefill_tokens_per_second=prefill_tps,
        load_bytes_per_second=None if load_gbps is None else load_gbps * 1e9,
        ram_price_per_gib=ram_price,
        **more,
    )
    return make_plan(request)


def _trace(trace: "str | Path | Trace", reading: "ReadOptions | None") -> "Trace":
    from warmset.traces import read

    return read(trace, reading).trace if isinstance(trace, str | Path) else trace


def grown_context(
    context_tokens: int | None, turns: int | None, tokens_per_turn: int | None, shared_prefix_tokens: int
) -> int:
    """The longest context of a session: as given, or the shared prefix and all its turns.

    Raises InputError unless exactly one of the two ways is given.
    """
    growing = turns is not None or tokens_per_turn is not None
    if context_tokens is not None and growing:
        raise InputError(
            "`--context` and `--turns` contradict each other",
            hint="give the context, or the turns that lead to it",
        )
    if context_tokens is not None:
        return context_tokens
    if turns is None or tokens_per_turn is None:
        raise InputError(
            "the context of a session is not known",
            hint="give `--context 8192`, or `--turns 20` together with `--tokens-per-turn 400`",
        )
    if turns < 1 or tokens_per_turn < 1:
        raise InputError(
            f"`--turns {turns}` × `--tokens-per-turn {tokens_per_turn}` is no session",
            hint="both are at least 1",
        )
    return shared_prefix_tokens + turns * tokens_per_turn


def devices(gpus: int | None, tp: int | None, pp: int, dp: int) -> int:
    """Tensor-parallel ranks: as given, else what `gpus` devices leave over `pp` and `dp`.

    Raises InputError where the product does not come out.
    """
    if gpus is None:
        return 1 if tp is None else tp
    for option, value in (("--gpus", gpus), ("--pp", pp), ("--dp", dp)):
        if value < 1:
            raise InputError(f"`{option} {value}` is below 1", hint="give a whole number from 1")
    if tp is not None:
        if tp * pp * dp != gpus:
            raise InputError(
                f"`--tp {tp}` × `--pp {pp}` × `--dp {dp}` is not `--gpus {gpus}`", hint="drop one of them"
            )
        return tp
    if gpus % (pp * dp):
        raise InputError(
            f"`--gpus {gpus}` cannot be spread over `--pp {pp}` and `--dp {dp}`",
            hint="the number of devices is tp × pp × dp",
        )
    return gpus // (pp * dp)


# Endings of the backends that take a directory of their own.
_ON_DISK = ("+disk", "+warmset")


def launch_for(
    plan: Plan,
    *,
    model: str | None = None,
    target: str = "shell",
    lmcache: Engine | None = None,
    disk_path: str = "/kv",
    object_url: str | None = None,
) -> "Launch | None":
    """What to type for a plan; None where it recommends nothing to type.

    `model` is the name to serve; without one the command says `MODEL`. Raises Unsupported for what the server
    version cannot do.
    """
    lower, with_disk = plan.lower_tier, False
    tier_bytes = plan.tier.recommended_bytes
    if lower is not None and plan.backend != "native" and plan.backend != "hicache":
        tier_bytes = lower.staging_bytes
        with_disk = plan.backend == "native+warmset" or (
            lower.kind == "disk" and plan.backend != "native+object"
        )
    if tier_bytes < MIB:
        return None
    from warmset.launch import LaunchRequest, write

    to_object = plan.backend == "native+object" or (
        plan.backend == "native+warmset" and lower is not None and lower.kind == "object"
    )
    return write(
        LaunchRequest(
            model=model,
            tier_bytes=tier_bytes,
            engine=parse_engine(plan.engine),
            backend=plan.backend,
            target=target,
            tp=plan.tp,
            pp=plan.pp,
            dp=plan.dp,
            disk_path=disk_path,
            disk_bytes=lower.recommended_bytes if with_disk and lower is not None else None,
            object_url=(object_url or "s3://bucket/kv") if to_object else None,
            kv_dtype=plan.asked_kv_dtype,
            lmcache=lmcache,
            block_size=plan.block_size,
            max_model_len=plan.max_model_len,
            bytes_per_token_per_rank=plan.bytes_per_token_per_rank,
            block_tokens=plan.block_tokens,
            ranks_cache_the_same=plan.ranks_cache_the_same,
            regions_per_rank=plan.regions_per_rank,
            pools=plan.pools,
            one_kind_of_cache=plan.one_kind_of_cache,
        )
    )


def launch(
    model: str | None = None,
    *,
    tier: Size,
    engine: Engine | str | None = None,
    backend: str | None = None,
    target: str = "shell",
    lmcache: Engine | str | None = None,
    disk: Size | None = None,
    **more: Any,
) -> "Launch":
    """Exactly what to type to serve `model` with a host tier of `tier` per replica, all ranks.

    Sizes are bytes, or text such as `"230GiB"`. `model` is a name of the catalogue, a Hub id or a path; None writes
    `MODEL`. `more` is passed on to `warmset.launch.LaunchRequest`: `tp`, `pp`, `dp`, `disk_path`, `object_url`,
    `kv_dtype`, `block_size`, `max_model_len`, …

    Raises Unsupported for what the server version cannot do, and InputError for bad input.
    """
    from warmset.launch import LaunchRequest, write

    named = parse_engine(engine) if isinstance(engine, str) else engine
    server, chosen = choose_engine(named, backend)
    tier_bytes = _bytes(tier, "tier")
    assert tier_bytes is not None
    if "disk_path" in more and (
        disk is None if chosen.startswith("lmcache") else not chosen.endswith(_ON_DISK)
    ):
        raise InputError(
            f"disk path `{more['disk_path']}` has no use: backend `{chosen}` has no disk tier here",
            hint="add `--disk-size SIZE`" if chosen.startswith("lmcache") else "use `--backend native+disk`",
        )
    request = LaunchRequest(
        model=served_name(model),
        tier_bytes=tier_bytes,
        engine=server,
        backend=chosen,
        target=target,
        lmcache=lmcache_engine(lmcache),
        disk_bytes=_bytes(disk, "disk"),
        **{**_model_facts(model, server, chosen, more), **more},
    )
    return write(request)


def _model_facts(
    model: str | None, server: Engine, backend: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """What the command must know of the model: its cost where the tier is counted in blocks, whether all ranks cache
    the same bytes where it is counted per rank, and how the host places it. Nothing for a model that is not known.

    Raises InputError for a deployment that the model cannot have: the server would not start.
    """
    try:
        found = None if model is None else load(model)
    except InputError:
        found = None
    if found is None:
        return {}
    given = {name: options[name] for name in ("kv_dtype", "tp", "pp", "block_size") if name in options}
    cost = found.footprint(**given)
    alike = len(cost.tables) == 1
    if options.get("max_model_len") is not None:
        cost.check_context(options["max_model_len"])
    if server.server == "vllm" and not (
        backend in NATIVE and server.default("hybrid_manager_with_connector") == "by_connector"
    ):
        # A model that needs the manager keeps it here; the notes say that the connector turns it off.
        with suppress(InputError):
            cost = found.footprint(**given, hybrid_manager=False)
    return {
        "bytes_per_token_per_rank": cost.per_rank.bytes_per_token,
        "block_tokens": cost.block_tokens,
        "ranks_cache_the_same": all_replicated(cost),
        "regions_per_rank": regions(cost, server),
        "pools": pools(cost, server) if backend == "hicache" else 1,
        "one_kind_of_cache": alike,
    }


def served_name(model: str | None) -> str | None:
    """What a server is given to load: the Hub id of a catalogue name, the folder of a `config.json`, else `model`.

    None (the command then says `MODEL`) for a configuration under another file name.
    """
    if model is None:
        return None
    path = Path(model).expanduser()
    if path.is_file():
        return str(path.parent) if path.name == "config.json" else None
    return model if path.is_dir() else hub_id(model)


def _bytes(size: Size | None, name: str) -> int | None:
    return parse_bytes(size, what=f"`{name}`") if isinstance(size, str) else size


def lmcache_engine(named: Engine | str | None) -> Engine | None:
    """LMCache in the version named: `0.5.6` or `lmcache@0.5.6`; InputError for another server."""
    if isinstance(named, str):
        named = parse_engine(named if "@" in named or named == "lmcache" else f"lmcache@{named}")
    if named is not None and named.server != "lmcache":
        raise InputError(
            f"`--lmcache {named}` is not LMCache", hint="write its version, such as `--lmcache 0.5.6`"
        )
    return named
