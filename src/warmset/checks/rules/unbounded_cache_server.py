"""Remote cache servers without a limit of their own."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.units import format_bytes


def check(case: Case) -> Iterator[Answer]:
    """The old remote store (lm://): it keeps everything in memory."""
    if case.launch.server != "lmcache-store":
        return
    limit = case.launch.resources.memory_limit_bytes
    tail = (
        f": it is killed at its memory limit of about {format_bytes(limit)}"
        if limit
        else " until the machine is full"
    )
    yield Hit(
        f"the remote store keeps everything in memory and evicts nothing{tail}",
        case.launch.resources.memory_word or case.launch.where,
        fix="redis with maxmemory and an eviction policy, or `lmcache server --l1-size-gb … --eviction-policy LRU`",
    )


RULE = Rule(
    "unbounded-cache-server",
    "warning",
    "A cache server that fills its memory.",
    "`lmcache_server` (the chart's cacheserverSpec) has no capacity and no eviction. It grows until it is "
    "killed, and every "
    "engine then logs a broken pipe.",
    "cacheserverSpec: {replicaCount: 1, resources: {limits: {memory: 10Gi}}}",
    "LMCACHE_REMOTE_URL=redis://cache:6379 with maxmemory 8gb, maxmemory-policy allkeys-lru",
    "all versions",
    "production-stack issue 923",
    check,
)
