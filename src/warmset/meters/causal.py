"""Causal accounting: the prefill seconds that the tier saved, and the seconds that requests paid for it.

It needs no baseline. The tier supplied E tokens; had it not, the server would have computed them. What a token
costs is measured in the same window, on the tokens that were computed. That rate is the upper estimate: it
spreads the fixed cost of each request over fewer tokens, and it prices tokens at the front of a prompt, which
attend to little, like those at its end. The lower estimate takes both away: no request has a fixed cost above
the fastest ones' whole TTFT, and in the extreme of attention-bound prefill a token costs in proportion to its position.
"""

from dataclasses import dataclass

from warmset.meters.quantiles import Estimate, Histogram, quantile


@dataclass(frozen=True, slots=True)
class Accounts:
    """Request-seconds saved and paid in the window.

    Attributes:
        saved_seconds: prefill seconds that the tier's hits spared; the upper end is the rate of the computed tokens.
        paid_seconds: seconds of loads and lookups, summed over requests; None where not exported.
        load_seconds, lookup_seconds: the two parts of what was paid.
        prefill_seconds_per_token: measured cost of a computed token.
    """

    saved_seconds: Estimate | None
    paid_seconds: float | None
    load_seconds: float | None
    lookup_seconds: float
    prefill_seconds_per_token: float | None


def account(
    *,
    external_hit_tokens: float | None,
    device_hit_tokens: float | None,
    prompt_tokens: float | None,
    computed_tokens: float | None,
    prefill_seconds: float | None,
    requests: float | None,
    ttft: Histogram | None,
    load_seconds: float | None,
    lookup_seconds: float,
) -> Accounts:
    """The accounts of one window; parts that cannot be known are None."""
    rate = prefill_seconds / computed_tokens if prefill_seconds and computed_tokens else None
    saved = None
    if rate is not None and external_hit_tokens is not None and computed_tokens and prefill_seconds:
        high = external_hit_tokens * rate
        fixed = 0.0
        fast = quantile(ttft, 0.05)
        if fast is not None and requests:
            fixed = min(prefill_seconds, requests * fast.value)
        front = _front_share(device_hit_tokens or 0.0, external_hit_tokens, prompt_tokens)
        low = external_hit_tokens * (prefill_seconds - fixed) / computed_tokens * front
        saved = Estimate(high, low, high)
    paid = None if load_seconds is None else load_seconds + lookup_seconds
    return Accounts(saved, paid, load_seconds, lookup_seconds, rate)


def _front_share(device: float, external: float, prompt: float | None) -> float:
    """Cost of a supplied token over that of a computed one, if cost grew in proportion to position.

    Device hits stand first, the tier's follow, computed tokens come last; means over all requests.
    """
    if not prompt:
        return 1.0
    supplied, computed = 2 * device + external, device + external + prompt
    return min(1.0, supplied / computed) if computed > 0 else 1.0


def against_baseline(
    now: Accounts,
    *,
    external_hit_tokens: float | None,
    prompt_tokens: float | None,
    prefill_seconds: float | None,
    base_rate: float | None,
    base_prompt_tokens: float | None,
    base_prefill_seconds: float | None,
) -> Accounts:
    """The same accounts with two more estimates: the baseline's rate, and the difference of prefill per prompt
    token.
    """
    if now.saved_seconds is None or external_hit_tokens is None:
        return now
    estimates = [now.saved_seconds.value, now.saved_seconds.low or 0.0]
    if base_rate is not None:
        estimates.append(external_hit_tokens * base_rate)
    if (
        prompt_tokens
        and base_prompt_tokens
        and prefill_seconds is not None
        and base_prefill_seconds is not None
    ):
        difference = base_prefill_seconds / base_prompt_tokens * prompt_tokens - prefill_seconds
        estimates.append(max(0.0, difference))
    value = estimates[-1]
    return Accounts(
        Estimate(value, min(estimates), max(estimates)),
        now.paid_seconds,
        now.load_seconds,
        now.lookup_seconds,
        now.prefill_seconds_per_token,
    )
