"""An LMCache pool of size zero."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """max_local_cpu_size 0, also where local_cpu is off: loads are staged in that pool."""
    size = case.lmcache.get("max_local_cpu_size")
    if case.vllm and size is not None and size.number == 0:
        below = case.lmcache.disk is not None or case.lmcache.remote is not None
        why = "disk and remote loads are staged in it" if below else "the pool is also where loads are staged"
        yield Hit(
            f"`max_local_cpu_size` 0 leaves no pool: {why}, and the server stops with `buffer length (0)`",
            size.at,
            fix="max_local_cpu_size: 5",
        )


RULE = Rule(
    "zero-staging-pool",
    "error",
    "LMCache's host pool must not be zero.",
    "Also with `local_cpu: false` the pool is used to stage what is read from disk or a remote store. Leave the "
    "key out "
    "(5 GiB per rank) or give at least 1.",
    "local_cpu: false\nmax_local_cpu_size: 0\nlocal_disk: file:///mnt/kv/",
    "local_cpu: false\nmax_local_cpu_size: 5\nlocal_disk: file:///mnt/kv/",
    "all versions of LMCache in-process",
    "LMCache issue 1901",
    check,
)
