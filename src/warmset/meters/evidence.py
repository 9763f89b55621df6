"""The numbers behind a verdict, each with the metric that it was read from."""

from warmset.meters.causal import Accounts
from warmset.meters.meters import Meters
from warmset.meters.verdict import Evidence


def number(value: float | None) -> str:
    """A count for a sentence."""
    return "an unknown number of" if value is None else f"{value:,.0f}"


def gather(m: Meters, accounts: Accounts) -> tuple[Evidence, ...]:
    """Everything known, most telling first; what the server does not export is left out."""
    s, found = m.sources, []

    def add(text: str, value: float | None, unit: str, key: str) -> None:
        if value is not None:
            found.append(Evidence(text, value, unit, s.get(key, "")))

    add("requests", m.requests, "requests", "requests")
    add("prompt tokens", m.prompt_tokens, "tokens", "prompt_tokens")
    add("prompt tokens that the device had", m.device_hit_tokens, "tokens", "device_hit_tokens")
    add("prompt tokens that the tier supplied", m.external_hit_tokens, "tokens", "external_hit_tokens")
    add("prompt tokens that were computed", m.computed_tokens, "tokens", "computed_tokens")
    for name, tokens in m.hit_ratio.by_tier.items():
        add(f"hits by tier: {name}", tokens, "tokens", "by_tier")
    add("loaded from the tier", m.load_bytes, "bytes", "load_bytes")
    add("stored to the tier", m.store_bytes, "bytes", "store_bytes")
    add("stored to the tier", m.tier.stored_tokens, "tokens", "stored_tokens")
    add("stores refused for want of room", m.stores_refused, "stores", "stores_refused")
    add("seconds of loads", accounts.load_seconds, "seconds", "load_seconds")
    for lookup, kind in ((m.lookup_async, "asynchronous"), (m.lookup_sync, "synchronous")):
        if lookup is not None and lookup.count > 0:
            found.append(
                Evidence(f"seconds of {kind} lookups", lookup.seconds, "seconds", f"{lookup.metric}_sum")
            )
    add("seconds of prefill", m.prefill_seconds, "seconds", "prefill_seconds")
    if accounts.saved_seconds is not None and m.external_hit_tokens:
        low, high = accounts.saved_seconds.low or 0.0, accounts.saved_seconds.high or 0.0
        text = f"seconds of prefill saved, between {low:,.3g} and {high:,.3g}"
        metric = " × ".join(filter(None, (s.get("external_hit_tokens"), s.get("prefill_seconds"))))
        found.append(Evidence(text, accounts.saved_seconds.value, "seconds", metric))
    for rank, estimate in (
        ("p50", m.ttft_p50_seconds),
        ("p90", m.ttft_p90_seconds),
        ("p99", m.ttft_p99_seconds),
    ):
        if estimate is not None:
            top = f"{estimate.high:g} s" if estimate.high is not None else "above the last bucket"
            text = f"TTFT {rank}, surely between {estimate.low or 0:g} s and {top}"
            found.append(Evidence(text, estimate.value, "seconds", f"{s.get('ttft', '')}_bucket"))
    tier = m.tier
    if tier.device_pool_tokens is not None:
        found.append(
            Evidence(
                "device pool of one engine",
                tier.device_pool_tokens,
                "tokens",
                "vllm:cache_config_info" if m.engine.server == "vllm" else "sglang:max_total_num_tokens",
            )
        )
    if tier.capacity_tokens is not None:
        found.append(
            Evidence("capacity of the tier", tier.capacity_tokens, "tokens", tier.capacity_source or "")
        )
    elif tier.capacity_bytes is not None:
        found.append(
            Evidence("capacity of the tier", tier.capacity_bytes, "bytes", tier.capacity_source or "")
        )
    add("preemptions", m.preemptions, "requests", "preemptions")
    return tuple(found)
