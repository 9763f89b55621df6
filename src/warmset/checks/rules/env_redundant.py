"""Environment variables that only repeat a default."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.record import truthy


def check(case: Case) -> Iterator[Answer]:
    """Variables that the user wrote, not those that a chart adds."""
    env = case.launch.env
    if not case.vllm or case.launch.origin in ("helm", "operator"):
        return
    experimental = env.get("LMCACHE_USE_EXPERIMENTAL")
    if experimental is not None:
        yield Hit(
            "LMCACHE_USE_EXPERIMENTAL was removed from LMCache and is ignored", experimental, fix="remove it"
        )
    local = env.get("LMCACHE_LOCAL_CPU")
    if (
        local is not None
        and truthy(local.value)
        and case.in_process is not None
        and "LMCACHE_MAX_LOCAL_CPU_SIZE" not in env
    ):
        yield Hit(
            "LMCACHE_LOCAL_CPU is on by default, with 5 GiB per rank: the size is what is missing",
            local,
            fix="LMCACHE_MAX_LOCAL_CPU_SIZE=GIB_PER_RANK",
        )


RULE = Rule(
    "env-redundant",
    "note",
    "A variable that changes nothing.",
    "LMCACHE_LOCAL_CPU is on by default; alone it leaves the pool at 5 GiB per rank. LMCACHE_USE_EXPERIMENTAL is gone.",
    "LMCACHE_USE_EXPERIMENTAL=True LMCACHE_LOCAL_CPU=True",
    "LMCACHE_MAX_LOCAL_CPU_SIZE=50",
    "all versions in use",
    "LMCache v1/config.py; vLLM PR 45762",
    check,
)
