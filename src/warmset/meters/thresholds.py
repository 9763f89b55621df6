"""The thresholds of the verdict: every number that is a choice, in one record, with its reason."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from warmset.errors import InputError, UnknownName


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What counts as enough, little or none. Ratios are shares of prompt tokens unless said otherwise.

    Attributes:
        min_requests: with fewer requests, and
        min_prompt_tokens: fewer prompt tokens than this, the window is too short to judge. Token counters are exact, so
            few long prompts are as good as many short ones; the intervals of the latency meters widen by themselves.
        no_reuse_ratio: below this share of hits, on all tiers together, there is nothing that a tier could serve.
        one_shot_ratio: below this share of device hits, and with no hits of the tier at all, what is hit is a shared
            preamble and not a session that returns.
        served_ratio: the tier serves something from this share on; below, it is idle for all that matters.
        device_serves_ratio: with an idle tier, a device that serves at least this share serves the reuse there is.
        thrash_load_ratio: loaded bytes below this share of the stored bytes are little (of stored bytes).
        thrash_store_ratio: stores that reach this share of the computed tokens keep pace with traffic (of computed
            tokens).
        thrash_served_ratio: a tier that serves at least this share is not thrashing, whatever it writes.
        restore_margin: stored tokens above this multiple of the computed tokens were stored more than once.
        paid_ratio: without a baseline, seconds paid up to this share of the upper estimate of seconds saved are a
            gain, also where the lower estimate does not reach them (of seconds saved).
        no_gain_ratio: against a baseline, more combined hits than this many points are new reuse.
        traffic_change: a relative change of the mean prompt length beyond this, and beyond its interval, is other
            traffic.
        speed_change: prefill seconds per computed token that grew by more than this share mean that the server itself
            ran slower, for whatever reason.
        suspect_ratio: hits above this share of the prompt tokens are impossible, so the counters do not belong
            together.
    """

    min_requests: float = 20
    min_prompt_tokens: float = 20_000
    no_reuse_ratio: float = 0.01
    one_shot_ratio: float = 0.05
    served_ratio: float = 0.01
    device_serves_ratio: float = 0.5
    thrash_load_ratio: float = 0.1
    thrash_store_ratio: float = 0.5
    thrash_served_ratio: float = 0.05
    restore_margin: float = 1.01
    no_gain_ratio: float = 0.02
    paid_ratio: float = 0.25
    traffic_change: float = 0.2
    speed_change: float = 1.0
    suspect_ratio: float = 1.05


DEFAULTS = Thresholds()


def with_settings(settings: Iterable[str]) -> Thresholds:
    """The defaults with settings such as `min_requests=50` applied.

    Raises UnknownName for a name that is no threshold and InputError for a value that is no number.
    """
    known = {field.name for field in fields(Thresholds)}
    changed: dict[str, float] = {}
    for setting in settings:
        name, separator, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known:
            raise UnknownName("threshold", name, known, hint=f"known are {', '.join(sorted(known))}")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not separator or not 0 <= value < 1e18:
            raise InputError(
                f"threshold `{setting[:80]}` has no number",
                hint=f"write it like `{name}={getattr(DEFAULTS, name):g}`",
            )
        changed[name] = value
    return replace(DEFAULTS, **changed)
