"""Helping or hurting: causal accounts first, then the meters against the baseline, and never a difference
inside an interval.
"""

from collections.abc import Sequence

from warmset.meters import steps
from warmset.meters.baseline import Baseline, slower
from warmset.meters.causal import Accounts, against_baseline
from warmset.meters.meters import Meters
from warmset.meters.quantiles import Estimate
from warmset.meters.thresholds import Thresholds
from warmset.meters.verdict import Comparison, Confidence, Name, Step

# Two runs of the same prompts differ by the few requests that were in flight at the ends.
_SAME_PROMPTS = 0.01

Weighed = tuple[Name, str, str, Confidence, list[Step]]


def accounts_of(m: Meters, base: Baseline | None, comparable: bool) -> Accounts:
    """The window's accounts, with the two estimates of a baseline of the same traffic where there is one."""
    if base is None or not comparable:
        return m.accounts
    return against_baseline(
        m.accounts,
        external_hit_tokens=m.external_hit_tokens,
        prompt_tokens=m.prompt_tokens,
        prefill_seconds=m.prefill_seconds,
        base_rate=base.prefill_seconds_per_token,
        base_prompt_tokens=base.prompt_tokens,
        base_prefill_seconds=base.prefill_seconds,
    )


def weigh(
    m: Meters,
    base: Baseline | None,
    accounts: Accounts,
    comparisons: Sequence[Comparison],
    comparable: bool,
    t: Thresholds,
) -> Weighed:
    """Name, reason, summary, confidence and next steps for a tier that serves something.

    `comparable` says whether the traffic of the two windows allows comparing latencies.
    """
    balance = _balance(accounts)
    moved = [c for c in comparisons if c.change != "within the interval"] if comparable else []
    worse = [c for c in moved if c.change == "worse"]
    # More hits are the means, not the end: only a latency that fell speaks for the tier.
    better = [c for c in moved if c.change == "better" and c.is_latency]
    latency_worse = any(c.is_latency for c in worse)
    supplied = f"{m.external_hit_tokens or 0:,.0f} tokens"
    paid, saved = accounts.paid_seconds, accounts.saved_seconds
    account = (
        f"{_seconds(paid)} s were paid for loads and lookups, {_range(saved)} of prefill were saved"
        if paid is not None and saved is not None
        else ""
    )
    still = [c for c in comparisons if c.is_latency and c.change == "within the interval"]
    flat = (
        f"; {_names(still)} differ from the baseline by less than their intervals"
        if comparable and still
        else ""
    )
    if balance == "paid" and not better:
        return (
            "hurting",
            "loads_cost_more",
            f"{account}: the tier costs more than it spares",
            "high",
            steps.hurting(m),
        )
    if base is not None and balance == "saved" and latency_worse and _other_reuse(m, base, worse):
        return (
            "mixed",
            "other_reuse",
            f"{account}, and {_names(worse)} worsened; but this is other traffic, of which less repeats, and "
            "a tier takes no hits away",
            "low",
            steps.mixed(m, base),
        )
    if worse and not better and (latency_worse or balance != "saved"):
        summary = f"{_names(worse)} worsened beyond the interval" + (f"; {account}" if account else "")
        # Stores can slow a server down, and so can anything else on the machine.
        slow = slower(m, base, t.speed_change) if base is not None else None
        if slow is not None:
            summary += f"; but {slow}, with or without the tier to blame"
        return (
            "hurting",
            "meter_worsened",
            summary,
            "low" if slow is not None else "high" if balance != "saved" else "medium",
            [steps.again(m), *steps.hurting(m)] if slow is not None else steps.hurting(m),
        )
    if worse or (balance == "paid" and better):
        parts = (
            account,
            f"worse: {_names(worse)}" if worse else "",
            f"better: {_names(better)}" if better else "",
        )
        return "mixed", "meters_disagree", "; ".join(filter(None, parts)), "medium", steps.mixed(m, base)
    if balance == "saved":
        confidence: Confidence = (
            "high" if saved is not None and (paid or 0) <= 0.5 * (saved.low or 0) else "medium"
        )
        return (
            "helping",
            "prefill_saved",
            f"the tier supplied {supplied}: {account}{flat}",
            confidence,
            steps.helping(m),
        )
    if better:
        return (
            "helping",
            "meters_improved",
            f"the tier supplied {supplied}, and {_names(better)} improved",
            "medium",
            steps.helping(m),
        )
    if (
        balance == "between"
        and base is None
        and saved is not None
        and (paid or 0.0) <= t.paid_ratio * saved.value
    ):
        return (
            "helping",
            "paid_little",
            f"the tier supplied {supplied}: {account}, and only if nearly all of the prefill were a fixed cost of "
            "each request would that be a loss",
            "low",
            steps.helping_unproven(m, base),
        )
    if balance == "between":
        return (
            "mixed",
            "within_estimates",
            f"{account}: between the two estimates{flat}",
            "low",
            steps.mixed(m, base),
        )
    summary = (
        f"the tier supplied {supplied}; what its loads cost is not exported, so this rests on the hits "
        f"alone{flat}"
    )
    return "helping", "hits_without_costs", summary, "low", steps.helping_unproven(m, base)


def _other_reuse(m: Meters, base: Baseline, worse: Sequence[Comparison]) -> bool:
    """Fewer hits together, and not of the same prompts: then the traffic changed. With the same prompts, a tier might
    have taken room on the device.
    """
    if (
        not any(c.meter == "combined hit ratio" for c in worse)
        or not m.prompt_tokens
        or not base.prompt_tokens
    ):
        return False
    return abs(m.prompt_tokens / base.prompt_tokens - 1) > _SAME_PROMPTS


def _balance(accounts: Accounts) -> str:
    """Where the seconds paid stand against the estimates of seconds saved; empty where either is unknown."""
    saved, paid = accounts.saved_seconds, accounts.paid_seconds
    if saved is None or paid is None or saved.high is None or saved.low is None:
        return ""
    if paid > saved.high:
        return "paid"
    return "saved" if paid < saved.low else "between"


def _range(saved: Estimate | None) -> str:
    if saved is None or saved.low is None or saved.high is None:
        return "an unknown time"
    return f"{_seconds(saved.low)}–{_seconds(saved.high)} s"


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _names(comparisons: Sequence[Comparison]) -> str:
    return ", ".join(f"{c.meter} ({c.words(c.before)} → {c.words(c.after)})" for c in comparisons)
