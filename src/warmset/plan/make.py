"""One question in, one `Plan` out."""

from dataclasses import replace
from fractions import Fraction

from warmset.errors import InputError, Unsupported
from warmset.geometry import Footprint
from warmset.hardware import Accelerator, Storage, accelerator, storage
from warmset.plan.below import Below, below, with_lower_tier
from warmset.plan.charge import NATIVE, Charge, all_replicated, charge
from warmset.plan.decide import Outcome, Sizes, decide, does_not_fit, sizes, weigh
from warmset.plan.device import budget, reserved_blocks, whole_block_tokens
from warmset.plan.fixes import fixes, footprint_of
from warmset.plan.host import Placement, host, placement
from warmset.plan.record import Cost, Demand, Fleet, Plan, Tier
from warmset.plan.remarks import assumptions, notes
from warmset.plan.request import PlanRequest, choose_engine
from warmset.plan.sessions import sessions_in
from warmset.plan.speed import break_even
from warmset.plan.start import Start, start
from warmset.plan.surface import pool_flags
from warmset.plan.traffic import hits_of, leave_off, need, traffic_of, traffic_sizes, whole_blocks
from warmset.plan.words import ServerWords, read_log, read_metrics
from warmset.servers import Engine, engine
from warmset.units import GIB, MAX_BYTES, format_bytes, format_size

# Considered where nobody names a lower tier, the plainest first.
_CANDIDATES = {
    "disk": ("nvme-gen4", "nvme-gen5", "nvme-gen4-raid4", "nvme-gen5-raid4"),
    "object": ("object-25gbe", "object-100gbe", "object-400gbe"),
}
# SGLang stops too, unless it is told otherwise (`get_and_verify_context_len`).
_SHORTER = (
    "ask for a shorter context; SGLang refuses more too, unless "
    "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 is set"
)


def make_plan(request: PlanRequest) -> Plan:
    """Answer `request`.

    Raises InputError for contradictions and for what the model cannot have, UnknownName for unknown names and
    Unsupported for a backend that the server version does not have.
    """
    asked, words = request, _words(request)
    server, backend = choose_engine(_named_engine(request, words), request.backend)
    request, server, word_notes = _apply_words(request, server, words)
    lmcache = (request.lmcache or engine("lmcache")) if backend.startswith("lmcache") else None
    gpu = accelerator(request.gpu) if request.gpu is not None else None
    alone = footprint_of(request)
    _check_max_model_len(request, alone, server)
    footprint, hybrid_notes = _with_connector(request, alone, server, backend)
    found = budget(request, alone, server, words, gpu)
    demand = _demand(request, alone)
    attached = _demand(request, footprint)
    charged = charge(footprint, request.context_tokens, server, backend, lmcache)
    placed = placement(server, backend, request.ranks, charged.regions, charged.pools)
    above = placement(server, with_lower_tier(backend, "disk"), request.ranks, charged.regions, charged.pools)
    lower = below(server, backend, above)
    stores, store_notes = _stores(request, footprint, charged, gpu, lower)
    where = host(
        request.host_ram_bytes,
        request.container_limit_bytes,
        request.dev_shm_bytes,
        request.ranks,
        request.dp,
    )
    size = sizes(attached, demand.device_bytes, found.device, charged, request.headroom_ratio)
    if size.inclusive_bytes > MAX_BYTES:
        raise InputError(
            f"`{request.sessions:,}` {'session' if request.sessions == 1 else 'sessions'} of "
            f"`{request.context_tokens:,}` tokens need a tier of {format_size(size.inclusive_bytes)}: that is absurdly "
            "large",
            hint="check `--sessions`, `--context` and `--headroom`; they count one replica",
        )
    speeds = break_even(request, footprint, charged, gpu, stores)
    helps = fixes(request, server, alone, found.device, words.longest_context_tokens if words else None)
    unified = pool_flags(server) if gpu is not None and gpu.host_link.unified else ()
    hits = None
    if request.trace is None:
        outcome = decide(
            demand, found.device, charged, size, placed, where, speeds, stores, lower, helps, unified=unified
        )
    else:
        context = whole_blocks(request.trace, request.context_tokens, request.geometry.max_context_tokens)
        hits = hits_of(
            request.trace,
            request.within_points,
            context,
            found.device.kv_budget_bytes,
            alone,
            charge(footprint, context, server, backend, lmcache),
            reserved_blocks=reserved_blocks(server),
        )
        asked_for = traffic_sizes(hits)
        if found.device.sessions < 1:
            outcome = Outcome(decision=does_not_fit(demand, found.device, helps))
        elif not asked_for.warm_set_bytes:
            outcome = Outcome(decision=leave_off(hits, found.device))
        else:
            reason = need(hits, asked_for.warm_set_bytes, found.device)
            outcome = weigh(charged, asked_for, placed, where, speeds, stores, lower, reason, unified=unified)
    if outcome.lower is not None:
        placed = lower.placed
    connects = outcome.decision.verdict in ("offload", "add_lower_tier")
    started = (
        Start(request.max_model_len, ())
        if outcome.decision.verdict == "does_not_fit"
        else start(
            request, footprint if connects else alone, server, found.device, reserved_blocks(server), words
        )
    )
    tier = _tier(request, backend, charged, placed, size, outcome, attached)
    return Plan(
        model=request.geometry.name,
        engine=str(server),
        backend=backend if outcome.lower is None else with_lower_tier(backend, outcome.lower.kind),
        kv_dtype=alone.kv_dtype,
        bytes_per_token=float(alone.bytes_per_token),
        block_tokens=alone.block_tokens,
        tp=request.tp,
        pp=request.pp,
        dp=request.dp,
        dcp=request.dcp,
        max_model_len=started.max_model_len,
        block_size=asked.block_size,
        asked_kv_dtype=request.kv_dtype,
        bytes_per_token_per_rank=Fraction(alone.per_rank.bytes_per_token),
        ranks_cache_the_same=all_replicated(alone),
        regions_per_rank=charged.regions,
        pools=charged.pools,
        one_kind_of_cache=len(alone.tables) == 1,
        decision=outcome.decision,
        demand=demand,
        device=found.device,
        tier=tier,
        lower_tier=outcome.lower,
        traffic=None if hits is None else traffic_of(request, hits, found.device, charged, size, outcome),
        break_even=speeds,
        host=where,
        fleet=_fleet(request, demand, tier),
        cost=_cost(request, demand, tier),
        assumptions=(
            *found.assumptions,
            *assumptions(
                request,
                server,
                speeds,
                gpu_known=gpu is not None,
                version_known=request.engine is not None or (words is not None and words.version is not None),
            ),
            *store_notes,
        ),
        notes=(
            *server.notes,
            *word_notes,
            *found.notes,
            *alone.notes,
            *(hybrid_notes if connects else ()),
            *started.notes,
            *notes(request, server, found, outcome, tier, placed),
        ),
    )


def _words(request: PlanRequest) -> ServerWords | None:
    if request.metrics is not None:
        return read_metrics(request.metrics)
    return read_log(request.log) if request.log is not None else None


def _named_engine(request: PlanRequest, words: ServerWords | None) -> Engine | None:
    """The server as named, else the one whose words were given; InputError where these differ."""
    if words is None or (request.engine is not None and request.engine.server == words.server):
        return request.engine
    if request.engine is not None:
        raise InputError(
            f"`--engine {request.engine}` is not the server whose words were given: they are those of {words.server}",
            hint=f"name its version by `--engine {words.server}@VERSION`, or give the words of the other server",
        )
    return engine(words.server) if words.server == "sglang" else None


def _apply_words(
    request: PlanRequest, server: Engine, words: ServerWords | None
) -> tuple[PlanRequest, Engine, tuple[str, ...]]:
    """Let the server's words settle what the user left open; say so where they contradict the user."""
    if words is None:
        return request, server, ()
    notes = []
    if words.kv_dtype is not None and request.kv_dtype == "auto":
        request = replace(request, kv_dtype=words.kv_dtype)
        notes.append(f"KV dtype `{words.kv_dtype}` is what the server reports")
    if words.version is not None and request.engine is None and server.server == "vllm":
        server = engine(f"vllm@{words.version}")
        notes.append(f"the log is that of vLLM {words.version}: its flags and defaults are used")
    if words.block_tokens is not None and request.block_size is None and _one_table(request):
        request = replace(request, block_size=words.block_tokens)
    return request, server, tuple(notes)


def _one_table(request: PlanRequest) -> bool:
    tables = footprint_of(request).tables
    return len(tables) == 1 and tables[0].first.kind != "state"


def _stores(
    request: PlanRequest, footprint: Footprint, charged: Charge, gpu: Accelerator | None, lower: Below
) -> tuple[tuple[Storage, ...], tuple[str, ...]]:
    """The lower tiers to consider: as named, else the plainest that loads faster than the model computes."""
    if request.storage:
        return tuple(storage(name) for name in request.storage), ()
    if not lower.kinds:
        return (), ()
    candidates = tuple(storage(name) for name in _CANDIDATES[lower.kinds[0]])
    speeds = break_even(request, footprint, charged, gpu, candidates)[1:]
    paying = (
        store for store, line in zip(candidates, speeds, strict=True) if line.ratio is None or line.ratio >= 1
    )
    store = next(paying, candidates[-1])
    return (store,), (
        f"below host memory: {store.label} ({store.source}); name yours by `--disk` or `--object`",
    )


def _check_max_model_len(request: PlanRequest, footprint: Footprint, server: Engine) -> None:
    try:
        footprint.check_context(max(request.context_tokens, request.max_model_len or 0))
    except InputError as error:
        if server.server == "vllm":
            raise
        raise InputError(error.message, hint=_SHORTER) from None


def _with_connector(
    request: PlanRequest, alone: Footprint, server: Engine, backend: str
) -> tuple[Footprint, tuple[str, ...]]:
    """The footprint once the backend's connector is attached: some versions then drop the hybrid KV-cache manager."""
    if len(alone.tables) == 1 or not request.hybrid_manager or server.server != "vllm":
        return alone, ()
    rule = server.default("hybrid_manager_with_connector")
    if rule == "by_connector" and backend in NATIVE:
        return alone, ()
    cause = f"`{server}` turns its hybrid KV-cache manager off for backend `{backend}`"
    try:
        footprint = footprint_of(request, hybrid_manager=False)
    except InputError as error:
        raise Unsupported(
            f"{cause}, and this model needs it: {error.message}",
            hint="use backend `native` with `--engine vllm@0.22` or newer",
        ) from None
    if any(table.first.kind == "state" for table in footprint.tables):
        raise Unsupported(
            f"{cause}, and this model's recurrent state needs it: the server would not start",
            hint="use backend `native` with `--engine vllm@0.22` or newer",
        )
    before = alone.pool_bytes_per_session(request.context_tokens)
    after = footprint.pool_bytes_per_session(request.context_tokens)
    if after <= before:
        return alone, ()
    return footprint, (
        f"{cause}: a session then takes {format_bytes(after)} on the device instead of {format_bytes(before)}; "
        "vLLM 0.22 and newer keep it for backend `native`",
    )


def _demand(request: PlanRequest, footprint: Footprint) -> Demand:
    """Sessions × context, with the shared prefix once."""
    context, shared = request.context_tokens, request.shared_prefix_tokens
    again = request.sessions - 1
    each = footprint.bytes_per_session(context)
    content = each * request.sessions - again * shared * footprint.bytes_per_token
    per_token = footprint.pool_bytes_per_token or Fraction(0)
    device_each = footprint.pool_bytes_per_session(context)
    device = device_each * request.sessions - again * whole_block_tokens(request, footprint) * per_token
    return Demand(
        sessions=request.sessions,
        context_tokens=context,
        shared_prefix_tokens=shared,
        bytes_per_session=_up(each),
        warm_set_bytes=_up(content),
        warm_set_tokens=request.sessions * context - again * shared,
        device_bytes_per_session=device_each,
        device_bytes=_up(Fraction(device)),
    )


def _tier(
    request: PlanRequest,
    backend: str,
    charged: Charge,
    placed: Placement,
    size: Sizes,
    outcome: Outcome,
    demand: Demand,
) -> Tier:
    given = outcome.recommended_bytes
    staging = outcome.lower.staging_bytes if outcome.lower is not None else 0
    configured = given or staging
    allocated = configured // charged.chunk_bytes * charged.chunk_bytes
    taken = placed.host_bytes(configured)
    further = charged.further_bytes(demand.shared_prefix_tokens)
    return Tier(
        backend=backend,
        inclusion=charged.inclusion,
        why=charged.why,
        headroom_ratio=request.headroom_ratio,
        warm_set_bytes=size.warm_set_bytes,
        inclusive_bytes=size.inclusive_bytes,
        exclusive_bytes=size.exclusive_bytes,
        recommended_bytes=given,
        per_rank_bytes=-(-given // request.ranks),
        allocated_bytes=allocated,
        chunk_bytes=charged.chunk_bytes,
        chunk_tokens=charged.chunk_tokens,
        host_memory_bytes=taken,
        dev_shm_bytes=taken if placed.shared_memory else 0,
        sessions=sessions_in(given, charged.session_bytes, further, demand.sessions),
        bytes_per_warm_session=-(-given // demand.sessions),
        conversions=charged.conversions,
    )


def _fleet(request: PlanRequest, demand: Demand, tier: Tier) -> Fleet:
    replicas = request.replicas * request.dp
    return Fleet(
        replicas=replicas,
        sessions=replicas * demand.sessions,
        warm_set_bytes=replicas * demand.warm_set_bytes,
        tier_bytes=replicas * tier.recommended_bytes,
        host_memory_bytes=replicas * tier.host_memory_bytes,
    )


def _cost(request: PlanRequest, demand: Demand, tier: Tier) -> Cost | None:
    if request.ram_price_per_gib is None:
        return None
    total = tier.host_memory_bytes / GIB * request.ram_price_per_gib
    return Cost(
        price_per_gib=request.ram_price_per_gib,
        total=total,
        per_warm_session=total / demand.sessions if tier.host_memory_bytes else None,
    )


def _up(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
