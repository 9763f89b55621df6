"""The verdict: one question after the other, and the first that holds is the answer."""

from dataclasses import replace

from warmset.meters.baseline import Baseline, compare, remarks, traffic_changes
from warmset.meters.case import Case
from warmset.meters.meters import Meters
from warmset.meters.questions import QUESTIONS
from warmset.meters.thresholds import DEFAULTS, Thresholds
from warmset.meters.verdict import Verdict
from warmset.meters.weigh import accounts_of


def judge(
    meters: Meters,
    baseline: Baseline | None = None,
    tier_bytes: float | None = None,
    thresholds: Thresholds = DEFAULTS,
) -> Verdict:
    """Answer for one window, against a baseline where there is one.

    `tier_bytes` is the capacity of the tier per engine, if it was not given to `meters` already.
    """
    m = _with_capacity(meters, tier_bytes)
    changes, comparable = traffic_changes(m, baseline, thresholds.traffic_change) if baseline else ((), True)
    ratio = m.hit_ratio
    case = Case(
        m,
        thresholds,
        baseline,
        ratio.device.value if ratio.device else 0.0,
        # Hits of an unknown number of prompt tokens are still hits.
        ratio.external.value if ratio.external else float(bool(m.external_hit_tokens)),
        compare(m, baseline, comparable) if baseline else (),
        changes,
        comparable,
        accounts_of(m, baseline, comparable),
    )
    for question in QUESTIONS:
        found = question(case)
        if found is not None:
            return replace(
                found,
                accounts=case.accounts,
                comparisons=case.comparisons,
                traffic_changes=case.changes,
                notes=(*m.notes, *(remarks(m, baseline, comparable) if baseline else ()), *found.notes),
            )
    raise AssertionError("the last question always answers")


def _with_capacity(m: Meters, tier_bytes: float | None) -> Meters:
    if tier_bytes is None:
        return m
    per_token = m.tier.bytes_per_token
    tier = replace(
        m.tier,
        present=True,
        capacity_bytes=tier_bytes,
        capacity_tokens=tier_bytes / per_token if per_token else None,
        capacity_source="--tier",
    )
    return replace(m, tier=tier)
