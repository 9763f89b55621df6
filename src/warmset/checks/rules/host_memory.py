"""Host tiers sized as a total against the memory there is."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule, Severity
from warmset.checks.rules.shm_too_small import too_small, wanted_memory_gib
from warmset.checks.sizing import RESERVE_RATIO, HostTier, budgets, size_setting
from warmset.units import GIB, format_bytes


def check(case: Case) -> Iterator[Answer]:
    """Totals (and per-rank sizes of one rank) against every known budget."""
    for tier in case.tiers:
        if tier.node_bytes != tier.written_bytes * tier.replicas:
            continue
        known = budgets(case)
        if not known:
            yield Missing("host memory", f"whether {format_bytes(tier.node_bytes)} fit: give --host-ram")
        for budget in known:
            severity = _severity(tier.node_bytes / budget.bytes, budget.kind, case)
            if severity is None:
                continue
            relation = "is more than" if tier.node_bytes > budget.bytes else "leaves too little of"
            why = (
                ": the server may start, and fails when its pages are first written"
                if budget.kind == "host"
                else ""
            )
            yield Hit(
                f"the tier takes {tier.formula}, which {relation} {budget.words}{why}",
                tier.at,
                severity,
                _fix(tier, budget.kind, int(budget.bytes * (1 - RESERVE_RATIO)), case),
            )
            break


def _severity(share: float, kind: str, case: Case) -> Severity | None:
    if share > 1:
        # A request alone reserves memory and limits nothing; the chart's requestMemory is what the pod takes.
        return "warning" if kind == "request" and case.launch.origin != "helm" else "error"
    return "warning" if share > 1 - RESERVE_RATIO and kind != "request" else None


def _fix(tier: HostTier, kind: str, fits: int, case: Case) -> str:
    needed = -(-tier.node_bytes * 12 // 10 // GIB)
    if case.launch.origin == "helm":
        return f'requestMemory: "{needed + 10}Gi"'
    if kind in ("limit", "request"):
        if too_small(case, tier):
            needed = wanted_memory_gib(tier)  # `shm-too-small` speaks of the same limit
        return f"memory: {needed}Gi"
    if tier.kind == "lmcache-server":
        return f"--l1-size-gb {fits // GIB}"
    return size_setting(case, tier, fits // max(1, tier.replicas))


RULE = Rule(
    "host-memory",
    "error",
    "A host tier larger than the memory it is to live in.",
    "A tier's pages are taken when they are first written, so a server can start healthy with a tier larger than the "
    "machine and be killed hours later. In a container the tier counts to the memory limit, also where it lives "
    "in /dev/shm. "
    "Each data-parallel replica has its own tier.",
    "vllm serve M --kv-offloading-size 200   # on a host of 176 GiB",
    "vllm serve M --kv-offloading-size 140",
    "all versions",
    "vLLM issue 42348; production-stack tutorials",
    check,
)
