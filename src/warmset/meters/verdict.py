"""The verdict record: an answer, what it rests on, and what to do next."""

from dataclasses import dataclass
from typing import Literal, get_args

from warmset.meters.causal import Accounts
from warmset.units import format_duration, format_ratio

Name = Literal[
    "helping",
    "hurting",
    "thrashing",
    "no_reuse",
    "inert",
    "tier_too_small",
    "not_needed",
    "mixed",
    "undecided",
    "no_tier",
]
NAMES: tuple[Name, ...] = get_args(Name)
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact behind a verdict: what it says, its number, and the metric that it was read from."""

    text: str
    value: float | None = None
    unit: str = ""
    metric: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do next, with the exact command where there is one."""

    text: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One meter against the baseline; `change` is claimed only where the intervals do not overlap."""

    meter: str
    before: float
    after: float
    change: Literal["better", "worse", "within the interval"]
    unit: Literal["ratio", "seconds"]

    @property
    def is_latency(self) -> bool:
        """Whether the meter is a time, which other prompts change without a tier."""
        return self.unit == "seconds"

    def words(self, value: float) -> str:
        """One of the two values with its unit."""
        return format_duration(value) if self.unit == "seconds" else format_ratio(value)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one window.

    Attributes:
        name: one of NAMES.
        reason: a stable word that narrows the name, such as `loads_cost_more` or `prefix_caching_off`.
        summary: the answer in one sentence.
        confidence: how much better evidence could change it.
        evidence: the numbers, most telling first.
        next_steps: what to do.
        comparisons: meters against the baseline, empty without one.
        traffic_changes: how the traffic of the two windows differs, empty where it does not.
        notes: remarks.
        accounts: seconds saved and paid, with the baseline's estimates where its traffic is the same.
    """

    name: Name
    reason: str
    summary: str
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    next_steps: tuple[Step, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    traffic_changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    accounts: Accounts | None = None
