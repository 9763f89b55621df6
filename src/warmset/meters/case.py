"""The case that the questions of the verdict are asked about."""

from dataclasses import dataclass

from warmset.meters.baseline import Baseline
from warmset.meters.causal import Accounts
from warmset.meters.evidence import gather
from warmset.meters.meters import Meters
from warmset.meters.thresholds import Thresholds
from warmset.meters.verdict import Comparison, Confidence, Evidence, Name, Step, Verdict


@dataclass(frozen=True, slots=True)
class Case:
    """A window with everything that the questions ask about, worked out once."""

    m: Meters
    t: Thresholds
    base: Baseline | None
    device: float
    external: float
    comparisons: tuple[Comparison, ...]
    changes: tuple[str, ...]
    comparable: bool
    accounts: Accounts

    @property
    def idle(self) -> bool:
        """The tier serves next to nothing."""
        return self.external < self.t.served_ratio


def undecided(c: Case, reason: str, summary: str, next_steps: list[Step]) -> Verdict:
    """The answer where nothing can be told."""
    return answer(c, "undecided", reason, summary, "low", next_steps)


def answer(
    c: Case,
    name: Name,
    reason: str,
    summary: str,
    confidence: Confidence,
    next_steps: list[Step],
    first: list[Evidence] | None = None,
) -> Verdict:
    """A verdict on this window with its evidence; `first` stands before the numbers."""
    evidence = (*(first or ()), *gather(c.m, c.accounts))
    return Verdict(name, reason, summary, confidence, evidence, tuple(next_steps))
