"""PromQL that sums ratios."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, replacing

_SUM = re.compile(
    r"\bsum\s*(?:(?:by|without)\s*\([^()]*\)\s*)?\(\s*(?P<name>(?:vllm|sglang|lmcache):[a-z0-9_]*(?:_perc|_ratio|_rate|usage|hit_rate))\b(?P<labels>\{[^{}]*\})?\s*\)"
)


def check(case: Case) -> Iterator[Answer]:
    """`sum()` over a gauge between 0 and 1."""
    if not case.inputs.queries or case.launch is not (case.inputs.launches or (case.launch,))[0]:
        return
    for word in case.inputs.queries:
        for match in _SUM.finditer(word.value):
            fixed = "avg" + match[0][3:]
            yield Hit(
                f"`{match['name']}` is a share of each pod: two pods at 0.4 are 0.4, not 0.8",
                word.find(match[0]),
                fix=fixed,
                edit=replacing(word, match[0], fixed),
            )


RULE = Rule(
    "metric-sum",
    "error",
    "PromQL that adds shares.",
    "Gauges such as kv_cache_usage_perc are shares of one engine. Summed over pods they pass 1 and mean nothing; "
    "average "
    "them, or take the maximum.",
    "sum(vllm:kv_cache_usage_perc)",
    "avg(vllm:kv_cache_usage_perc)",
    "all versions",
    "public report on a GCP dashboard, September 2025",
    check,
)
