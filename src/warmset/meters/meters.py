"""The three meters, and the accounts beside them: numbers only, no judgement."""

import math
from dataclasses import dataclass, field

from warmset.meters.causal import Accounts, account
from warmset.meters.log import LogFacts
from warmset.meters.lower import TierMeters, tier_meters
from warmset.meters.quantiles import Estimate, Histogram, Z, proportion, quantile
from warmset.meters.readings import Reading, Readings, read
from warmset.meters.tier import Tier, find_tier, hicache_shows
from warmset.meters.window import Window
from warmset.servers import Engine, Version


@dataclass(frozen=True, slots=True)
class HitRatio:
    """Token-weighted hit ratios. Each tier's share is of all prompt tokens; `external_of_queries` is of the tokens that
    the device did not have.

    Attributes:
        device, external, combined: shares of the prompt tokens.
        external_of_queries: external hits over the tokens looked up in the tier, whatever that version counts as such.
        denominator: the metric below the line of the three shares.
        by_tier: tokens by tier (`device`, `host`, `disk`, …) where the version tells.
    """

    device: Estimate | None
    external: Estimate | None
    combined: Estimate | None
    external_of_queries: Estimate | None
    denominator: str | None
    by_tier: dict[str, float]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Delay of lookups in the tier: the asynchronous ones hold requests back, the synchronous ones the scheduler."""

    count: float
    seconds: float
    p50_seconds: Estimate | None
    p99_seconds: Estimate | None
    metric: str


@dataclass(frozen=True, slots=True)
class ChunkRequests:
    """Requests that surely had a whole chunk, of prompt tokens and of computed ones; zero where that is unknown."""

    prompts: float = 0.0
    computed: float = 0.0


@dataclass(frozen=True, slots=True)
class Meters:
    """What a window says about the tier.

    Counts are over the window. None means that the server does not export it; `notes` says what that costs.
    `sources` names the metric behind each number; `cached_without_split` says that hits of all tiers are one counter.
    """

    engine: Engine
    engine_assumed: bool
    seconds: float | None
    since_start: bool
    requests: float | None
    prompt_tokens: float | None
    device_hit_tokens: float | None
    external_hit_tokens: float | None
    external_query_tokens: float | None
    computed_tokens: float | None
    hit_ratio: HitRatio
    ttft: Histogram | None
    ttft_p50_seconds: Estimate | None
    ttft_p90_seconds: Estimate | None
    ttft_p99_seconds: Estimate | None
    lookup_async: Lookup | None
    lookup_sync: Lookup | None
    queue_seconds: float | None
    prefill_seconds: float | None
    preemptions: float | None
    load_bytes: float | None
    load_seconds: float | None
    store_bytes: float | None
    store_seconds: float | None
    store_tokens: float | None
    stores_refused: float | None
    cached_without_split: bool
    mean_prompt_tokens: Estimate | None
    mean_output_tokens: float | None
    tier: Tier
    accounts: Accounts
    sources: dict[str, str] = field(default_factory=dict)
    instances: tuple[str, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    tiers: tuple[TierMeters, ...] = ()
    chunk_requests: ChunkRequests = ChunkRequests()


def meters(
    window: Window,
    engine: Engine | None = None,
    *,
    tier_bytes: float | None = None,
    bytes_per_token: float | None = None,
    chunk_tokens: float | None = None,
    log: LogFacts | None = None,
) -> Meters:
    """Read the meters of a window.

    `engine` names the server and version (guessed from the metric names if not given). `tier_bytes` is the capacity of
    the tier per engine, `bytes_per_token` what a token costs in it and `chunk_tokens` its unit, where known
    from elsewhere.
    """
    r = read(window, engine)
    sources: dict[str, str] = {}
    notes = list(window.notes)

    def counter(key: str, role: str, server: str | None = None, **labels: str) -> float | None:
        found = r.counter(role, server, **labels)
        if found is None:
            return None
        sources[key] = found.metric
        return found.value

    ttft_found = r.histogram("ttft")
    ttft = ttft_found[0] if ttft_found else None
    if ttft_found:
        sources["ttft"] = ttft_found[1]
    requests = _requests(r, ttft, sources)
    tokens = _tokens(r, sources, notes)
    prompt, device, external, queries, computed, by_tier = tokens
    mean_prompt = _mean(r, "request_prompt_tokens", prompt, requests)
    tier = find_tier(
        r,
        tier_bytes=tier_bytes,
        bytes_per_token=bytes_per_token,
        chunk_tokens=chunk_tokens,
        external_hit_tokens=external,
        computed_tokens=computed,
        log=log,
        sources=sources,
    )
    transfers = _transfers(r, sources)
    lookup_async, lookup_sync = _lookup(r, "async"), _lookup(r, "sync")
    queue, prefill = counter("queue_seconds", "queue_time"), counter("prefill_seconds", "prefill_time")
    if prefill is None and ttft is not None and queue is not None:
        prefill = max(0.0, ttft.sum - queue)
        sources["prefill_seconds"] = f"{sources['ttft']}_sum - {sources['queue_seconds']}"
    in_prefill = tier.loads_inside_prefill
    load_seconds = transfers["load_seconds"]
    if in_prefill and prefill is not None and load_seconds is not None:
        prefill = max(0.0, prefill - load_seconds)
        notes.append("loads of this connector run inside the prefill: their seconds are taken out of it")
    accounts = account(
        external_hit_tokens=external,
        device_hit_tokens=device,
        prompt_tokens=prompt,
        computed_tokens=computed,
        prefill_seconds=prefill,
        requests=requests,
        ttft=ttft,
        load_seconds=load_seconds,
        lookup_seconds=(lookup_async.seconds if lookup_async else 0.0)
        + (lookup_sync.seconds if lookup_sync else 0.0),
    )
    n = requests if requests else None
    generation = counter("generation_tokens", "generation_tokens")
    return Meters(
        engine=r.engine,
        engine_assumed=r.assumed,
        seconds=window.seconds,
        since_start=window.since_start,
        requests=requests,
        prompt_tokens=prompt,
        device_hit_tokens=device,
        external_hit_tokens=external,
        external_query_tokens=queries,
        computed_tokens=computed,
        hit_ratio=HitRatio(
            _share(device, prompt, n),
            _share(external, prompt, n),
            _share(
                None if device is None and external is None else (device or 0.0) + (external or 0.0),
                prompt,
                n,
            ),
            _share(external, queries, n),
            sources.get("prompt_tokens"),
            by_tier,
        ),
        ttft=ttft,
        ttft_p50_seconds=quantile(ttft, 0.5),
        ttft_p90_seconds=quantile(ttft, 0.9),
        ttft_p99_seconds=quantile(ttft, 0.99),
        lookup_async=lookup_async,
        lookup_sync=lookup_sync,
        queue_seconds=queue,
        prefill_seconds=prefill,
        preemptions=counter("preemptions", "preemptions"),
        load_bytes=transfers["load_bytes"],
        load_seconds=load_seconds,
        store_bytes=transfers["store_bytes"],
        store_seconds=transfers["store_seconds"],
        store_tokens=tier.stored_tokens,
        stores_refused=counter("stores_refused", "allocation_failures"),
        cached_without_split=not by_tier and r.counter("prompt_tokens_cached") is not None,
        mean_prompt_tokens=mean_prompt,
        mean_output_tokens=generation / requests if generation is not None and requests else None,
        tier=tier,
        accounts=accounts,
        sources=sources,
        instances=window.instances,
        failures=window.failures,
        notes=tuple(dict.fromkeys((*notes, *tier.notes, *(r.engine.notes)))),
        suspects=window.suspects,
        tiers=tier_meters(r),
        chunk_requests=ChunkRequests(
            _longer(r, "request_prompt_tokens", tier.chunk_tokens),
            # Computed tokens need not begin where a chunk does.
            _longer(r, "prefill_computed_tokens", 2 * tier.chunk_tokens if tier.chunk_tokens else None),
        ),
    )


def _requests(r: Readings, ttft: Histogram | None, sources: dict[str, str]) -> float | None:
    """Requests that got a first token, or that finished where no TTFT is exported."""
    if ttft is not None:
        sources["requests"] = f"{sources['ttft']}_count"
        return ttft.count
    found = r.counter("requests_finished")
    if found is None:
        prompts = r.histogram("request_prompt_tokens")
        if prompts is None:
            return None
        sources["requests"] = f"{prompts[1]}_count"
        return prompts[0].count
    sources["requests"] = found.metric
    return found.value


def _tokens(
    r: Readings, sources: dict[str, str], notes: list[str]
) -> tuple[float | None, float | None, float | None, float | None, float | None, dict[str, float]]:
    """Prompt tokens, and where their KV came from: (prompt, device, external, queries, computed, by tier)."""
    prompt = r.counter("prompt_tokens")
    hits, lookups = r.counter("device_hit_tokens"), r.counter("device_query_tokens")
    external, queries = r.counter("external_hit_tokens"), r.counter("external_query_tokens")
    if _in_blocks(r, prompt, lookups):
        hits, lookups = _scaled(hits, r.block_tokens), _scaled(lookups, r.block_tokens)
    by_source = r.counter_by("prompt_tokens_by_source", "source")
    label = "cache_source" if r.engine.server == "sglang" else "source"
    by_tier = {k: v for k, v in r.counter_by("prompt_tokens_cached_by_source", label).items() if k != "total"}
    total = prompt
    if total is None and (lookups is not None or hits is not None):
        total = lookups
        notes.append("prompt tokens are not exported: the looked-up tokens stand in for them")
    if total is None and queries is not None:
        total = Reading(queries.value + (hits.value if hits else 0.0), queries.metric)
        notes.append("prompt tokens are not exported: the tokens looked up in the tier stand in for them")
    if prompt is not None and not prompt.value and lookups is not None and lookups.value:
        total = lookups
    device = hits
    if by_source and math.fsum(x.value for x in by_source.values()) > 0:
        device = by_source.get("local_cache_hit", device)
        external = by_source.get("external_kv_transfer", external) if external is None else external
    elif hits is not None and lookups is not None and total is not None and lookups.value > total.value > 0:
        # Counted on every attempt to schedule, up to 0.26: the amounts do not hold, and the ratio roughly.
        device, how = _without_retries(r, hits, lookups, total, queries)
        notes.append(
            f"{lookups.metric} exceeds the prompt tokens by {lookups.value / total.value - 1:.0%}: lookups were "
            f"retried, so the device's hits are {how}"
        )
    if r.engine.server == "sglang":
        if by_tier:
            device = by_tier.get("device")
            below = [v for k, v in by_tier.items() if k != "device"]
            external = Reading(math.fsum(v.value for v in below), below[0].metric) if below else None
            if external is None and hicache_shows(r):
                external = Reading(0.0, next(iter(by_tier.values())).metric)  # children appear on first use
        else:
            notes.append(
                "this version counts cached tokens of all tiers together: the tier's share is not known"
            )
    mp_hits, mp_queries = r.counter("mp_hit_tokens", "lmcache"), r.counter("mp_query_tokens", "lmcache")
    if external is None and mp_hits is not None:
        external, queries = mp_hits, mp_queries
    loaded = r.counter("external_loaded_tokens", "lmcache")
    if external is None and loaded is not None:
        external = loaded
    for key, reading in (
        ("prompt_tokens", total),
        ("device_hit_tokens", device),
        ("external_hit_tokens", external),
        ("external_query_tokens", queries),
    ):
        if reading is not None:
            sources[key] = reading.metric
    computed = by_source.get("local_compute") or r.counter("prefill_computed_tokens")
    computed_value = computed.value if computed is not None else None
    if computed is not None:
        sources["computed_tokens"] = computed.metric
    if total is not None and (computed_value is None or (not computed_value and total.value)):
        known = (device.value if device else 0.0) + (external.value if external else 0.0)
        computed_value = max(0.0, total.value - known)
        sources["computed_tokens"] = f"{total.metric} - hits"
    tiers = {k: v.value for k, v in by_tier.items()}
    if by_tier:
        sources["by_tier"] = next(iter(by_tier.values())).metric
    tiers.update(_lmcache_tiers(r, sources))
    return (
        total.value if total else None,
        device.value if device else None,
        external.value if external else None,
        queries.value if queries else None,
        computed_value,
        tiers,
    )


def _in_blocks(r: Readings, prompt: Reading | None, lookups: Reading | None) -> bool:
    """Whether lookups under the oldest name were counted in blocks (0.8.5), where the version is only guessed: those of
    0.9.1 bear the same names, and count tokens, never fewer than were prompted.
    """
    if (
        not r.assumed
        or prompt is None
        or lookups is None
        or not lookups.metric.startswith("vllm:gpu_prefix_cache")
    ):
        return False
    return 0 < lookups.value < prompt.value / 2 and lookups.value * r.block_tokens >= prompt.value / 2


def _scaled(reading: Reading | None, factor: float) -> Reading | None:
    return None if reading is None else Reading(reading.value * factor, reading.metric)


def _without_retries(
    r: Readings, hits: Reading, lookups: Reading, total: Reading, queries: Reading | None
) -> tuple[Reading, str]:
    """Device hits where lookups were counted on every attempt, and how they were found."""
    # The tier is asked once per request, from 0.14 on for what the device did not have; before, for everything.
    missed_only = r.assumed or r.engine.version >= Version.parse("0.14")
    if queries is not None and missed_only and 0 < queries.value < total.value:
        return Reading(
            total.value - queries.value, queries.metric
        ), "the prompt tokens that the tier was not asked for"
    return Reading(hits.value / lookups.value * total.value, hits.metric), "scaled to the prompt tokens"


def _lmcache_tiers(r: Readings, sources: dict[str, str]) -> dict[str, float]:
    host, lower = r.counter("mp_hit_host_tokens", "lmcache"), r.counter("mp_hit_lower_tokens", "lmcache")
    found = {}
    for name, reading in (("lmcache_l1", host), ("lmcache_l2", lower)):
        if reading is not None:
            found[name] = reading.value
            sources[f"by_tier.{name}"] = reading.metric
    return found


def _transfers(r: Readings, sources: dict[str, str]) -> dict[str, float | None]:
    """Bytes and seconds in both directions; the older counters carry the direction as a label."""
    out: dict[str, float | None] = {}
    for key, role, old_role, direction in (
        ("load_bytes", "load_bytes", "transfer_bytes", "CPU_to_GPU"),
        ("load_seconds", "load_time", "transfer_time", "CPU_to_GPU"),
        ("store_bytes", "store_bytes", "transfer_bytes", "GPU_to_CPU"),
        ("store_seconds", "store_time", "transfer_time", "GPU_to_CPU"),
    ):
        found = r.counter(role)
        if found is None:
            by_direction = r.counter_by(old_role, "transfer_type")
            found = by_direction.get(direction)
            if found is None and by_direction:
                # The other direction is counted, so this one has not happened: children appear on first use.
                found = type(next(iter(by_direction.values())))(0.0, next(iter(by_direction.values())).metric)
        if found is None and key.endswith("seconds"):
            found = r.counter(role, "lmcache")
        out[key] = found.value if found else None
        if found:
            sources[key] = found.metric
    return out


def _lookup(r: Readings, kind: str) -> Lookup | None:
    """The delay of lookups, of the tier as a whole; per-tier delays where only those are exported."""
    for role in (f"lookup_{kind}_delay", f"tiering_lookup_{kind}_delay"):
        found = r.histogram(role) or (r.histogram(role, "lmcache") if kind == "sync" else None)
        if found is not None:
            h, name = found
            return Lookup(h.count, h.sum, quantile(h, 0.5), quantile(h, 0.99), name)
    return None


def _share(part: float | None, whole: float | None, requests: float | None) -> Estimate | None:
    """A token-weighted share; its interval treats each request as one draw, the cautious end of what
    clustering can do.
    """
    if part is None or not whole or whole <= 0:
        return None
    share = part / whole
    if requests is None or not 0 <= share <= 1:
        return Estimate(share)
    return proportion(share, requests)


def _longer(r: Readings, role: str, tokens: float | None) -> float:
    """Requests that a histogram shows to lie above a number of tokens; bounds between which it falls do not count."""
    found = r.histogram(role)
    if found is None or tokens is None:
        return 0.0
    h = found[0]
    below = next((count for bound, count in zip(h.bounds, h.counts, strict=True) if bound >= tokens), 0.0)
    return max(0.0, h.count - below)


def _mean(r: Readings, role: str, total: float | None, requests: float | None) -> Estimate | None:
    """A mean with an interval from the histogram's spread (its buckets, so the cautious side)."""
    found = r.histogram(role)
    if found is None or found[0].mean is None:
        return Estimate(total / requests) if total is not None and requests else None
    h, mean = found[0], found[0].mean
    assert mean is not None
    finite = [b for b in h.bounds if math.isfinite(b)]
    variance, previous, below = 0.0, 0.0, 0.0
    for bound, count in zip(h.bounds, h.counts, strict=True):
        edge = bound if math.isfinite(bound) else max(finite, default=0.0) * 2
        far = max(abs(edge - mean), abs(previous - mean))
        variance += (count - below) * far * far
        previous, below = edge, count
    half = Z * math.sqrt(variance / h.count) / math.sqrt(h.count) if h.count > 0 else 0.0
    return Estimate(mean, max(0.0, mean - half), mean + half)
