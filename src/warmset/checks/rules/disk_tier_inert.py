"""LMCache disk tiers that do not come into being."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity


def check(case: Case) -> Iterator[Answer]:
    """A size without a path, a path without a size."""
    size, path = case.lmcache.get("max_local_disk_size"), case.lmcache.disk
    if not case.vllm:
        return
    chart = case.launch.origin == "helm"
    if size is not None and (size.number or 0) > 0 and path is None:
        yield Hit(
            "the disk tier has a size and no path, so there is none"
            + (": the chart sets no LMCACHE_LOCAL_DISK" if chart else ""),
            size.at,
            fix='env: [{name: LMCACHE_LOCAL_DISK, value: "file:///mnt/kv/"}] with a mounted volume'
            if chart
            else "LMCACHE_LOCAL_DISK=file:///mnt/kv/ (local_disk)",
        )
    if path is not None and (size is None or size.number == 0):
        severity: Severity = "warning"
        yield Hit(
            "the disk tier has a path and no size, so there is none",
            path.at,
            severity,
            "LMCACHE_MAX_LOCAL_DISK_SIZE=GIB_PER_RANK (max_local_disk_size)",
        )


RULE = Rule(
    "disk-tier-inert",
    "note",
    "LMCache's disk tier lacks its path or its size.",
    "The tier exists only where `local_disk` (LMCACHE_LOCAL_DISK) and `max_local_disk_size` are both set. The "
    "production-stack chart turns `diskOffloadingBufferSize` into the size and sets no path.",
    "LMCACHE_MAX_LOCAL_DISK_SIZE=600",
    "LMCACHE_LOCAL_DISK=file:///mnt/kv/ LMCACHE_MAX_LOCAL_DISK_SIZE=600",
    "all versions of LMCache in-process",
    "LMCache issue 1061; production-stack chart 0.1.12, rendered",
    check,
)
