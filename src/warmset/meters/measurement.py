"""A measurement: one window's meters with their verdict, and the baseline that they were held against."""

from dataclasses import dataclass

from warmset.meters.baseline import Baseline
from warmset.meters.meters import Meters
from warmset.meters.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Measurement:
    """Everything that `warmset measure` reports."""

    meters: Meters
    verdict: Verdict
    baseline: Baseline | None = None
