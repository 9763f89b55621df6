"""Prompt tokens of a window, and where their KV came from: the device, the tier, or the forward pass."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from warmset.meters.readings import Reading, Readings
from warmset.meters.tier import hicache_shows, transfers
from warmset.servers import Version

_OWN_STORAGE = frozenset({"host", "disk", "lmcache_l1", "lmcache_l2"})


@dataclass(frozen=True, slots=True)
class Tokens:
    """Counts over the window; None where the server does not tell.

    Attributes:
        prompt: tokens of all prompts, or what stands in for them (a note says so).
        device, external: prompt tokens that the device had, and that the tier supplied.
        queries: tokens looked up in the tier, whatever the version counts as such.
        computed: prompt tokens that went through the forward pass.
        by_tier: hit tokens by tier, where the version tells.
    """

    prompt: float | None
    device: float | None
    external: float | None
    queries: float | None
    computed: float | None
    by_tier: dict[str, float]


def count_tokens(r: Readings, sources: dict[str, str], notes: list[str]) -> Tokens:
    """Count them; `sources` takes the metric behind each number, and `notes` what stands in for what is missing."""
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
        processed = r.counter_by("prefill_tokens_by_mode", "mode")
        if total is None and processed:
            total = _added(processed, "prefill_cache", "prefill_compute")
            device = None if hicache_shows(r) else processed.get("prefill_cache")
        if by_tier:
            device = by_tier.get("device")
            below = [v for k, v in by_tier.items() if k != "device"]
            external = Reading(math.fsum(v.value for v in below), below[0].metric) if below else None
            if external is None and hicache_shows(r):
                external = Reading(0.0, next(iter(by_tier.values())).metric)  # children appear on first use
        elif device is None:
            notes.append(
                "this version counts cached tokens of all tiers together: the tier's share is not known"
            )
    mp_hits, mp_queries = r.counter("mp_hit_tokens", "lmcache"), r.counter("mp_query_tokens", "lmcache")
    if external is None and (mp_hits is not None or mp_queries is not None):
        # Children appear on first use: lookups without a hit leave the hits out.
        external, queries = mp_hits or (Reading(0.0, mp_queries.metric) if mp_queries else None), mp_queries
        if total is None and queries is not None:
            total = queries
            notes.append(
                "prompt tokens are not on this page: the tokens looked up in the tier stand in for them"
            )
    loaded = r.counter("external_loaded_tokens", "lmcache")
    if loaded is not None and (external is None or r.engine.server == "lmcache"):
        # LMCache's own page: its lookups also match what the device has, and its retrieves do not.
        external = loaded
    tiers = {k: v.value for k, v in by_tier.items()}
    if by_tier:
        sources["by_tier"] = next(iter(by_tier.values())).metric
    tiers.update(_lmcache_tiers(r, sources))
    if transfers(r) and by_tier and own_hits(tiers):
        external = Reading(own_hits(tiers), sources["by_tier"])
        notes.append(
            "KV also came from other servers: only the hits of the tier's own storage are counted as its own"
        )
    _note_models(r, total, notes)
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
    return Tokens(
        total.value if total else None,
        device.value if device else None,
        external.value if external else None,
        queries.value if queries else None,
        computed_value,
        tiers,
    )


def own_hits(by_tier: Mapping[str, float]) -> float:
    """Tokens from storage of this server, as opposed to those that other servers sent."""
    return math.fsum(tokens for name, tokens in by_tier.items() if name in _OWN_STORAGE)


def _note_models(r: Readings, total: Reading | None, notes: list[str]) -> None:
    rows = r.window.increases.get(total.metric, ()) if total is not None else ()
    models = sorted({dict(row.labels).get("model_name", "") for row in rows})
    if len(models) > 1:
        notes.append(
            f"{len(models)} models are added together ({', '.join(models[:4])}): judge each alone with "
            "`--match model_name=NAME`"
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


def _added(parts: Mapping[str, Reading], *names: str) -> Reading:
    found = [parts[name] for name in names if name in parts]
    return Reading(math.fsum(part.value for part in found), next(iter(parts.values())).metric)


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
