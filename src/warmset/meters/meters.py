"""The three meters, and the accounts beside them: numbers only, no judgement."""

import math
from dataclasses import dataclass, field

from warmset.meters.causal import Accounts, account
from warmset.meters.log import LogFacts
from warmset.meters.lower import TierMeters, tier_meters
from warmset.meters.quantiles import Estimate, Histogram, Z, proportion, quantile
from warmset.meters.readings import Readings, read
from warmset.meters.tier import Tier, find_tier
from warmset.meters.tokens import count_tokens
from warmset.meters.window import Window
from warmset.servers import Engine
from warmset.units import format_counted


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
    prompt_tokens_p90: Estimate | None
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
    tokens = count_tokens(r, sources, notes)
    prompt, device, external, queries = tokens.prompt, tokens.device, tokens.external, tokens.queries
    computed, by_tier = tokens.computed, tokens.by_tier
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
    failed = r.counter("requests_finished", finished_reason="error")
    if failed is not None and failed.value > 0:
        notes.append(
            f"{format_counted(failed.value, 'request')} ended in an error; with `kv_load_failure_policy` `fail`, the "
            "default since vLLM 0.17, a block that the tier lost does that"
        )
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
        stores_refused=_either(
            counter("stores_refused", "allocation_failures"),
            counter("stores_refused", "allocation_failures", "lmcache"),
        ),
        cached_without_split=not by_tier and r.counter("prompt_tokens_cached") is not None,
        mean_prompt_tokens=mean_prompt,
        prompt_tokens_p90=quantile(prompts[0], 0.9)
        if (prompts := r.histogram("request_prompt_tokens"))
        else None,
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


def _either(first: float | None, second: float | None) -> float | None:
    return second if first is None else first


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
