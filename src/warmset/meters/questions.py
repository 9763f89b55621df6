"""The questions of the verdict, each asked of a window; None passes it on to the next.

no_tier → undecided → inert → no_reuse → tier_too_small → not_needed → thrashing → hurting / helping / mixed.
The order matters: a tier that nothing could use is not at fault, and one that was never at work cannot hurt.
"""

from collections.abc import Callable

from warmset.meters import steps
from warmset.meters.case import Case, answer, undecided
from warmset.meters.evidence import number
from warmset.meters.faults import shown
from warmset.meters.meters import Meters
from warmset.meters.tokens import own_hits
from warmset.meters.verdict import Evidence, Verdict
from warmset.meters.weigh import weigh
from warmset.units import format_bytes, format_counted

# Capacities come out of divisions.
_ROUNDING = 1 + 1e-6


def _no_tier(c: Case) -> Verdict | None:
    if c.m.tier.present or c.m.external_hit_tokens:
        return None
    if c.m.engine.server == "sglang" and c.m.cached_without_split:
        return None  # such a version shows no sign of HiCache either way
    if not _flows(c.m):
        summary = "no offload tier is attached, and no prompt tokens were counted: an empty baseline"
        return answer(c, "no_tier", "no_traffic", summary, "low", steps.baseline(c.m))
    if c.m.engine.server == "vllm" and c.m.external_query_tokens is None and c.m.ttft is not None:
        summary = (
            "no offload tier shows in the metrics, and this version exports none: a baseline, unless a "
            "connector is set"
        )
        return answer(c, "no_tier", "not_exported", summary, "low", steps.baseline(c.m))
    return answer(
        c,
        "no_tier",
        "no_connector",
        "no offload tier is attached: this window is a baseline",
        "high",
        steps.baseline(c.m),
    )


def _too_little(c: Case) -> Verdict | None:
    m, t = c.m, c.t
    if m.suspects:
        return undecided(
            c, "suspect_counters", f"the counters cannot be trusted: {m.suspects[0]}", steps.distrust(m)
        )
    if m.tier.transfers_between_servers and not own_hits(m.hit_ratio.by_tier):
        return undecided(
            c,
            "transfers_between_servers",
            "external hits include KV sent by other servers (prefill/decode transfer), so they say nothing "
            "about a tier",
            steps.transfers(m),
        )
    if not _flows(m):
        return undecided(c, "no_traffic", "no prompt tokens were counted in the window", steps.wait(m, t))
    combined = c.device + c.external
    if combined > t.suspect_ratio:
        return undecided(
            c,
            "suspect_counters",
            f"hits of {combined:.0%} of the prompt tokens are impossible",
            steps.distrust(m),
        )
    few = m.requests is not None and m.requests < t.min_requests
    if few and (m.prompt_tokens or 0) < t.min_prompt_tokens:
        return undecided(
            c,
            "too_few_requests",
            f"{format_counted(m.requests or 0, 'request')} with {number(m.prompt_tokens)} prompt tokens are too few to "
            f"judge (needed: {format_counted(t.min_requests, 'request')} or {number(t.min_prompt_tokens)} tokens)",
            steps.wait(m, t),
        )
    if m.external_hit_tokens is None and m.load_bytes is None and shown(m) is None:
        return undecided(
            c,
            "counters_missing",
            "the server does not tell the tier's hits from the device's",
            steps.missing(m),
        )
    return None


def _inert(c: Case) -> Verdict | None:
    m = c.m
    if _never_loaded(c):
        return answer(
            c,
            "inert",
            "matched_never_loaded",
            f"the load path does not work: the tier matched {m.external_hit_tokens:,.0f} prompt tokens, and not one "
            "byte was loaded",
            "medium",
            steps.never_loaded(m),
        )
    if m.external_hit_tokens or m.load_bytes:
        return None
    fault = shown(m)
    if fault is not None:
        return answer(
            c,
            "inert",
            fault.id,
            f"the tier does not work: {fault.part}",
            "medium" if fault.since and m.engine_assumed else "high",
            [steps.Step(fault.fix), steps.again(m)],
            [Evidence(f"known fault `{fault.id}`: {fault.source}")],
        )
    if m.tier.connector is None:
        return answer(
            c,
            "inert",
            "connector_absent",
            "a tier was named, but the server shows no connector: offload is not switched on",
            "high",
            steps.attach(m),
        )
    stores = m.store_bytes if m.store_bytes is not None else m.store_tokens
    chunk = m.tier.chunk_tokens or 1.0
    fresh = (m.computed_tokens or 0.0) / m.requests if m.requests else (m.computed_tokens or 0.0)
    enough = fresh >= chunk or m.chunk_requests.computed >= c.t.min_requests
    if stores == 0 and not m.tier.stores_skipped and enough:
        return answer(
            c,
            "inert",
            "nothing_stored",
            f"{m.tier.connector} stores nothing, although "
            + (
                f"each request brings {fresh:,.0f} new tokens"
                if fresh >= chunk
                else f"{format_counted(m.chunk_requests.computed, 'request')} brought whole chunks of new tokens"
            )
            + f" (a chunk is {chunk:,.0f})"
            + (f"; {_refused(m.stores_refused)}" if m.stores_refused else ""),
            "high" if m.tier.chunk_tokens else "medium",
            steps.nothing_stored(m),
        )
    return None


def _never_loaded(c: Case) -> bool:
    """Hits count what the tier matched; with a connector that counts its loads, none at all means that they fail."""
    m = c.m
    return (
        m.tier.connector == "OffloadingConnector"
        and not m.tier.others
        and m.load_bytes == 0
        and c.external >= c.t.served_ratio
    )


def _no_reuse(c: Case) -> Verdict | None:
    m, t = c.m, c.t
    one_shot = not m.external_hit_tokens and c.device < t.one_shot_ratio
    if c.device + c.external >= t.no_reuse_ratio and not one_shot:
        return None
    if m.hit_ratio.device is None and (m.hit_ratio.external is None or m.tier.capacity_tokens is not None):
        return None  # the device may well hit: where the page does not say, the size decides
    mean, chunk = m.mean_prompt_tokens, m.tier.chunk_tokens
    long = m.chunk_requests.prompts >= t.min_requests
    if mean is not None and chunk is not None and mean.value < chunk and not long:
        return answer(
            c,
            "no_reuse",
            "prompts_below_chunk",
            f"prompts of {mean.value:,.0f} tokens on average are shorter than one chunk of {chunk:,.0f}: "
            f"nothing can be "
            "stored or found",
            "high",
            steps.below_chunk(m),
        )
    if one_shot and c.device >= t.no_reuse_ratio:
        return answer(
            c,
            "no_reuse",
            "one_shot",
            f"only {c.device:.1%} of the prompt tokens were seen before, and the tier found none: one-shot "
            f"traffic with a "
            "shared preamble",
            "medium",
            steps.no_reuse(m),
        )
    return answer(
        c,
        "no_reuse",
        "no_hits",
        "neither the device nor the tier finds anything: this traffic does not repeat within reach of either",
        "high" if (m.requests or 0) >= t.min_requests and _kept_all(m) else "medium",
        steps.no_reuse(m),
    )


def _tier_too_small(c: Case) -> Verdict | None:
    m, tier = c.m, c.m.tier
    if not c.idle:
        return None
    capacity, pool = tier.capacity_tokens, tier.device_pool_tokens
    if capacity is not None and pool is not None:
        if capacity > pool * _ROUNDING:
            return None
        return answer(
            c,
            "tier_too_small",
            "capacity",
            f"the tier holds {capacity:,.0f} tokens and the device pool {pool:,.0f}: an inclusive tier that is "
            f"not larger "
            "adds nothing",
            "medium" if tier.capacity_is_rough else "high",
            steps.enlarge(m),
        )
    stored, computed = tier.stored_tokens, m.computed_tokens
    if stored is None or not computed or c.device <= 0:
        return None
    decoded = (m.mean_output_tokens or 0.0) * (m.requests or 0.0)
    if stored <= c.t.restore_margin * (
        computed + (decoded if m.engine.default("native_stores_decoded_blocks") else 0.0)
        if m.engine.server == "vllm"
        else computed
    ):
        return None
    return answer(
        c,
        "tier_too_small",
        "stored_again",
        f"{stored:,.0f} tokens were stored for {computed:,.0f} computed: blocks that the device still serves "
        f"had already left "
        "the tier, so it is smaller than the device pool",
        "medium",
        steps.enlarge(m),
    )


def _not_needed(c: Case) -> Verdict | None:
    m, t, tier = c.m, c.t, c.m.tier
    if c.base is not None and c.comparable and not c.idle and _no_gain(c):
        return answer(
            c,
            "not_needed",
            "no_new_reuse",
            "the tier serves hits that the device served before: together they cover no more than the baseline",
            "medium",
            steps.not_needed(m),
        )
    if not c.idle or c.device <= 0:
        return None
    pool, computed = tier.device_pool_tokens, tier.lifetime_computed_tokens
    if pool is not None and computed is not None and computed <= pool * tier.engines:
        return answer(
            c,
            "not_needed",
            "nothing_evicted",
            f"all {computed:,.0f} tokens computed since the start fit in the device's {pool * tier.engines:,.0f}: "
            "nothing was evicted that a tier could have kept",
            "high" if (m.requests or 0) >= t.min_requests else "medium",
            steps.not_needed(m),
        )
    if _kept_all(m):
        return answer(
            c,
            "not_needed",
            "tier_keeps_all",
            f"all {format_bytes(tier.lifetime_stored_bytes or 0)} stored since the start still lie in the tier "
            f"({format_bytes((tier.capacity_bytes or 0) * tier.engines)}), and none of it is asked for: what returns, "
            "the device has",
            "high" if (m.requests or 0) >= t.min_requests else "medium",
            steps.not_needed(m),
        )
    if c.device >= t.device_serves_ratio:
        return answer(
            c,
            "not_needed",
            "device_serves",
            f"the device already serves {c.device:.0%} of the prompt tokens, and the tier is asked for nothing "
            f"that it has",
            "medium",
            steps.not_needed(m),
        )
    return None


def _kept_all(m: Meters) -> bool:
    """Everything stored since the start still lies in the tier: a prompt that returned would have been found."""
    stored, capacity = m.tier.lifetime_stored_bytes, m.tier.capacity_bytes
    return bool(stored) and capacity is not None and (stored or 0.0) <= capacity * m.tier.engines


def _no_gain(c: Case) -> bool:
    """The combined share is no higher than the baseline's, and no latency is better beyond its interval."""
    base = c.base.combined_hit_ratio if c.base else None
    if (
        base is None
        or c.base is None
        or (c.base.external_hit_ratio is not None and c.base.external_hit_ratio.value > 0)
    ):
        return False
    gained = c.device + c.external - base.value >= c.t.no_gain_ratio
    return not gained and not any(x.change != "within the interval" for x in c.comparisons)


def _thrashing(c: Case) -> Verdict | None:
    m, t = c.m, c.t
    if c.external >= t.thrash_served_ratio:
        return None
    stored = m.tier.stored_tokens
    if stored is None and m.store_bytes and m.tier.bytes_per_token and not m.tier.cost_is_rough:
        stored = m.store_bytes / m.tier.bytes_per_token
    loaded = m.external_hit_tokens or 0.0
    if m.store_bytes and m.load_bytes is not None:
        little = m.load_bytes < t.thrash_load_ratio * m.store_bytes
    elif stored:
        little = loaded < t.thrash_load_ratio * stored
    elif c.idle:
        return undecided(
            c,
            "stores_unknown",
            "the tier serves next to nothing, and how much it stores is not exported: too small, or not needed",
            [*steps.cost_of_a_token(m), *steps.missing(m)],
        )
    else:
        return None
    if not little:
        return None
    keeps_pace = stored is None or not m.computed_tokens or stored >= t.thrash_store_ratio * m.computed_tokens
    if m.stores_refused and (stored is None or not keeps_pace):
        return answer(
            c,
            "thrashing",
            "stores_refused",
            f"{_refused(m.stores_refused)}, and the tier gives back {c.external:.1%} "
            "of the prompt tokens: it is too small, or held by transfers that are too slow",
            "medium",
            steps.thrashing(m),
        )
    if not keeps_pace:
        return None
    known = stored is not None and (m.load_bytes is not None or m.external_hit_tokens is not None)
    return answer(
        c,
        "thrashing",
        "stores_without_loads",
        ("the tier is written" if stored is None else "the tier writes as fast as tokens are computed")
        + f" and gives back {c.external:.1%} of the prompt tokens: what returns has been evicted by then",
        "medium" if known and m.external_hit_tokens else "low",
        steps.thrashing(m),
    )


def _idle(c: Case) -> Verdict | None:
    """Little stored, little loaded, little paid: there is nothing to weigh."""
    m, paid = c.m, c.m.accounts.paid_seconds or 0.0
    if not c.idle or (m.external_hit_tokens and paid > c.t.served_ratio * (m.prefill_seconds or 0.0)):
        return None
    if any(x.change == "worse" and x.is_latency for x in c.comparisons) and c.comparable:
        return None
    return answer(
        c,
        "not_needed",
        "idle",
        f"the tier supplies {c.external:.1%} of the prompt tokens and is hardly written: the device serves the reuse",
        "low",
        steps.not_needed(m),
    )


def _weigh(c: Case) -> Verdict:
    name, reason, summary, confidence, next_steps = weigh(
        c.m, c.base, c.accounts, c.comparisons, c.comparable, c.t
    )
    return answer(c, name, reason, summary, confidence, next_steps)


def _flows(m: Meters) -> bool:
    """Whether anything happened; what is stored or loaded was prompted, on pages that do not count prompts."""
    return any((m.prompt_tokens, m.external_hit_tokens, m.store_bytes, m.load_bytes, m.store_tokens))


QUESTIONS: tuple[Callable[[Case], Verdict | None], ...] = (
    _no_tier,
    _too_little,
    _inert,
    _no_reuse,
    _tier_too_small,
    _not_needed,
    _thrashing,
    _idle,
    _weigh,
)


def _refused(stores: float) -> str:
    return f"{format_counted(stores, 'store')} {'was' if stores == 1 else 'were'} refused for want of room"
