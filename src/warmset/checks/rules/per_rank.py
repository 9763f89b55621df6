"""Sizes that count for each rank: what they come to on one machine."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule, Severity
from warmset.checks.sizing import HostTier, budgets, said
from warmset.units import GB, GIB


def check(case: Case) -> Iterator[Answer]:
    """Per-rank tiers against every known budget; a note where the budget is unknown."""
    for tier in case.tiers:
        if not tier.per_rank or tier.node_bytes == tier.written_bytes * tier.replicas:
            continue
        known = budgets(case)
        worst = _worst(tier, case)
        if worst is not None:
            yield worst
            continue
        if not known:
            size = said(tier.node_bytes, tier.decimal)
            yield Missing("host memory", f"whether {size} fit: give --host-ram")
        yield Hit(
            f"the size is {tier.unit}: {tier.formula} on this machine{_tokens(tier, case)}",
            tier.at,
            "note",
            since=RULE.since,
        )


def _worst(tier: HostTier, case: Case) -> Hit | None:
    for budget in budgets(case):
        share = tier.node_bytes / budget.bytes
        limit = 0.5 if tier.kind.startswith("hicache") else 0.8
        if share <= limit:
            continue
        severity: Severity = "error" if share > 1 else "warning"
        over = "more than" if share > 1 else f"{share:.0%} of"
        tail = ""
        if tier.kind == "hicache-twice":
            tail = "; with recurrent layers the size is taken once for KV and once for the state"
        if share <= 1 and tier.kind.startswith("hicache"):
            tail += (
                "; pinned pages count as shared memory, and half of the memory is the usual limit for that"
            )
        return Hit(
            f"the size is {tier.unit}: {tier.formula}, {over} {budget.words}{tail}{_tokens(tier, case)}",
            tier.at,
            severity,
            _fix(tier, budget.bytes, limit),
            confidence="medium" if tier.kind == "hicache-twice" else "high",
        )
    return None


def _tokens(tier: HostTier, case: Case) -> str:
    """What the ranks of one engine hold together, where the model is known: every rank keeps its own share."""
    per_token = case.model.bytes_per_token
    if per_token is None or tier.kind == "hicache-twice":
        return ""
    engine_bytes = tier.written_bytes * tier.ranks * case.nodes
    return f"; the engine holds {engine_bytes / per_token:,.0f} tokens with it"


def _fix(tier: HostTier, budget_bytes: int, limit: float) -> str:
    share = int(budget_bytes * limit) * tier.written_bytes // max(1, tier.node_bytes)
    if tier.kind.startswith("hicache"):
        return f"--hicache-size {share // GB}"
    if tier.kind == "lmcache":
        return f"LMCACHE_MAX_LOCAL_CPU_SIZE={share // GIB}"
    return f'"cpu_bytes_to_use_per_rank": {share}'


RULE = Rule(
    "per-rank",
    "error",
    "A per-rank size that does not fit when all ranks take it.",
    "LMCache in-process (`LMCACHE_MAX_LOCAL_CPU_SIZE`, GiB), SGLang's HiCache (`--hicache-size`, 10^9 bytes) and "
    "`cpu_bytes_to_use_per_rank` count for each worker. Eight ranks take eight times as much; the server then "
    "hangs, or "
    "dies with an error that does not mention memory. For a total of T write T divided by the ranks on the machine. "
    "(`--kv-offloading-size` and `cpu_bytes_to_use` are totals.)",
    "LMCACHE_MAX_LOCAL_CPU_SIZE=50 vllm serve M -tp 8   # on a host of 256 GiB",
    "LMCACHE_MAX_LOCAL_CPU_SIZE=25 vllm serve M -tp 8",
    "all versions of LMCache in-process and SGLang",
    "LMCache issues 2901, 949; SGLang issues 14282, 29034",
    check,
)
