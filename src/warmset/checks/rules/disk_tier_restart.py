"""LMCache disk tiers and a restart."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """A disk tier of the in-process mode: its index lives in memory."""
    path, size = case.lmcache.disk, case.lmcache.get("max_local_disk_size")
    if not case.vllm or path is None or size is None or not size.number:
        return
    if not (
        case.in_process is not None or case.launch.origin in ("env", "settings") or not case.launch.complete
    ):
        return
    yield Hit(
        "the index of this disk tier is in memory: after a restart there are no hits (a hash seed does not "
        "change that), and "
        "files of earlier runs are neither counted in the size nor removed",
        path.at,
        fix="empty the directory before the server starts",
    )


RULE = Rule(
    "disk-tier-restart",
    "note",
    "LMCache's disk tier starts empty and leaves old files behind.",
    "The in-process mode keeps the index of the disk tier in memory. After a restart every lookup misses, and "
    "the files "
    "that are there stay, outside the size: a directory that survives restarts grows past its limit.",
    "LMCACHE_LOCAL_DISK=file:///cache LMCACHE_MAX_LOCAL_DISK_SIZE=250   # bind mount",
    "rm -rf /cache/* before the start",
    "LMCache in-process",
    "LMCache issues 1454, 1788",
    check,
)
