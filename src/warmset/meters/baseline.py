"""A baseline: the meters of an earlier window, as saved by `warmset measure --save`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from warmset.errors import InputError
from warmset.meters.meters import Meters
from warmset.meters.quantiles import Estimate
from warmset.meters.verdict import NAMES, Comparison
from warmset.meters.window import MOST

SCHEMA = "warmset.measure/1"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a comparison needs of a window; None where it was not exported."""

    requests: float | None
    seconds: float | None
    prompt_tokens: float | None
    combined_hit_ratio: Estimate | None
    external_hit_ratio: Estimate | None
    ttft_p50_seconds: Estimate | None
    ttft_p90_seconds: Estimate | None
    ttft_p99_seconds: Estimate | None
    ttft_mean_seconds: float | None
    prefill_seconds: float | None
    prefill_seconds_per_token: float | None
    mean_prompt_tokens: Estimate | None
    prompt_tokens_p90: Estimate | None
    mean_output_tokens: float | None
    payload: Mapping[str, Any]
    has_tier: bool = False


def of(m: Meters, payload: Mapping[str, Any]) -> Baseline:
    """The baseline that a window makes; `payload` is its JSON."""
    return Baseline(
        m.requests,
        m.seconds,
        m.prompt_tokens,
        m.hit_ratio.combined,
        m.hit_ratio.external,
        m.ttft_p50_seconds,
        m.ttft_p90_seconds,
        m.ttft_p99_seconds,
        m.ttft.mean if m.ttft else None,
        m.prefill_seconds,
        m.accounts.prefill_seconds_per_token,
        m.mean_prompt_tokens,
        m.prompt_tokens_p90,
        m.mean_output_tokens,
        payload,
        m.tier.present or bool(m.external_hit_tokens),
    )


def parse(data: Any, *, source: str, hint: str) -> Baseline:
    """Read what `--save` wrote. Raises InputError for anything else, naming the file, with `hint`: how one is made."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise InputError(
            f"baseline `{source}` is not a saved measurement ({SCHEMA}) but `{str(found)[:60]}`", hint=hint
        )
    try:
        meters, window = data["meters"], data["window"]
        ratio = meters["hit_ratio"]
        return Baseline(
            _number(window["requests"]),
            _number(window["seconds"]),
            _number(meters["prompt_tokens"]),
            _estimate(ratio["combined"]),
            _estimate(ratio["external"]),
            _estimate(meters["ttft_p50_seconds"]),
            _estimate(meters["ttft_p90_seconds"]),
            _estimate(meters["ttft_p99_seconds"]),
            _number(meters["ttft_mean_seconds"]),
            _number(meters["prefill_seconds"]),
            _number(meters["prefill_seconds_per_token"]),
            _estimate(meters["mean_prompt_tokens"]),
            _estimate(meters.get("prompt_tokens_p90")),
            _number(meters["mean_output_tokens"]),
            {key: value for key, value in data.items() if key not in ("schema", "baseline")}
            | {"verdict": data.get("verdict") if data.get("verdict") in NAMES else None},
            bool((data.get("tier") or {}).get("connector") or _number(meters.get("external_hit_tokens"))),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"baseline `{source}` is damaged: {type(error).__name__} {error}", hint=hint
        ) from None


def compare(m: Meters, base: Baseline, comparable: bool) -> tuple[Comparison, ...]:
    """Each meter against the baseline; a difference counts only where the two intervals do not overlap.

    Latencies are compared only where the prompts are `comparable`.
    """
    rows: tuple[tuple[str, Estimate | None, Estimate | None, Literal["ratio", "seconds"]], ...] = (
        ("combined hit ratio", base.combined_hit_ratio, m.hit_ratio.combined, "ratio"),
        ("TTFT p50", base.ttft_p50_seconds, m.ttft_p50_seconds, "seconds"),
        ("TTFT p90", base.ttft_p90_seconds, m.ttft_p90_seconds, "seconds"),
        ("TTFT p99", base.ttft_p99_seconds, m.ttft_p99_seconds, "seconds"),
    )
    found = []
    for meter, before, after, unit in rows:
        lower_is_better = unit == "seconds"
        if before is None or after is None or (lower_is_better and not comparable):
            continue
        change: Any = "within the interval"
        if _above(after, before):
            change = "worse" if lower_is_better else "better"
        elif _above(before, after):
            change = "better" if lower_is_better else "worse"
        found.append(Comparison(meter, before.value, after.value, change, unit))
    return tuple(found)


def traffic_changes(m: Meters, base: Baseline, relative: float) -> tuple[tuple[str, ...], bool]:
    """How the traffic differs, in words, and whether TTFTs of the two windows can be compared at all.

    A request rate that changed is named but does not forbid the comparison: in a closed loop it is the effect,
    not the cause.
    """
    changes: list[str] = []
    comparable = True
    before, after = base.mean_prompt_tokens, m.mean_prompt_tokens
    if before and after and before.value > 0 and abs(after.value / before.value - 1) > relative:
        known = None not in (before.low, before.high, after.low, after.high)
        if not known or _above(after, before) or _above(before, after):
            comparable = False
            changes.append(f"the mean prompt went from {before.value:,.0f} to {after.value:,.0f} tokens")
    long_before, long_after = base.prompt_tokens_p90, m.prompt_tokens_p90
    if comparable and long_before and long_after and long_before.value > 0:
        far = abs(long_after.value / long_before.value - 1) > relative
        if far and (_above(long_after, long_before) or _above(long_before, long_after)):
            comparable = False
            changes.append(
                f"a tenth of the prompts is longer than {long_after.value:,.0f} tokens instead of "
                f"{long_before.value:,.0f}"
            )
    old, new = base.mean_output_tokens, m.mean_output_tokens
    if old and new and abs(new / old - 1) > relative:
        changes.append(f"the mean output went from {old:,.0f} to {new:,.0f} tokens")
    if base.requests and base.seconds and m.requests and m.seconds:
        rate_before, rate_after = base.requests / base.seconds, m.requests / m.seconds
        spread = 1.96 * (1 / base.requests + 1 / m.requests) ** 0.5
        if abs(rate_after / rate_before - 1) > max(relative, spread):
            changes.append(f"requests came at {rate_after:.3g} per second instead of {rate_before:.3g}")
    return tuple(changes), comparable


def remarks(m: Meters, base: Baseline, comparable: bool) -> list[str]:
    """What the comparison cannot show."""
    said = []
    if base.has_tier and (m.tier.present or m.external_hit_tokens):
        said.append(
            "the baseline was itself taken with a tier attached: the comparison shows what changed between the two "
            "windows, not what the tier does; take a baseline with the tier off"
        )
    if not comparable:
        said.append(
            "the prompts of the two windows differ in length: latencies are not compared, and the baseline gives no "
            "estimate"
        )
    return said


def slower(m: Meters, base: Baseline, relative: float) -> str | None:
    """That the server itself computed far slower than in the baseline, in words; None where it did not.

    A tier spreads the fixed cost of requests over fewer computed tokens, so a cost that grew a little says nothing.
    """
    before, after = base.prefill_seconds_per_token, m.accounts.prefill_seconds_per_token
    if not before or not after or after / before <= 1 + relative:
        return None
    return f"a computed token took {after * 1e3:.3g} ms of prefill instead of {before * 1e3:.3g}"


def _above(a: Estimate, b: Estimate) -> bool:
    """Whether a is above b beyond both intervals; an open end supports nothing."""
    return a.value > b.value and a.low is not None and b.high is not None and a.low >= b.high


def _number(value: Any) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not 0 <= number <= MOST:
        raise ValueError(f"{number:g} is no count, share or time")
    return number


def _estimate(value: Any) -> Estimate | None:
    if value is None or value["value"] is None:
        return None
    middle = _number(value["value"])
    assert middle is not None
    return Estimate(middle, _number(value["low"]), _number(value["high"]))
