"""Disk tiers that never delete."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.record import Volume
from warmset.units import format_bytes


def check(case: Case) -> Iterator[Answer]:
    """vLLM's fs tier and SGLang's file backend."""
    if case.sglang:
        backend = case.launch.flag("--hicache-storage-backend")
        if backend is not None and backend.value is not None and backend.value.value == "file":
            yield Hit(
                "the `file` backend has no size limit, writes without atomic renames and reads one file at a time",
                backend.value,
                fix="--hicache-storage-backend hf3fs, mooncake or nixl",
            )
        return
    native = case.native
    for tier in native.tiers if native is not None else ():
        if tier.get("type") not in ("fs", "fs_python") or tier.get("module_path"):
            continue
        assert native is not None
        root = str(tier.get("root_dir", ""))
        volume = volume_of(case, root)
        if volume is not None and volume.kind == "emptydir" and volume.limit_bytes:
            continue  # said by disk-tier-eviction
        where = f" `{root[:80]}`" if root else ""
        yield Hit(
            f"the file tier{where} never deletes: it grows until the disk is full",
            native.key("root_dir") if root else native.key("secondary_tiers"),
            fix="a cleaner beside the server, a volume of its own, or a tier with a capacity",
        )


def volume_of(case: Case, path: str) -> Volume | None:
    """The mounted volume that holds a path."""
    found = [
        v for v in case.launch.resources.volumes if path and (path + "/").startswith(v.path.rstrip("/") + "/")
    ]
    return max(found, key=lambda v: len(v.path)) if found else None


def describe(volume: Volume) -> str:
    """A volume for messages."""
    return (
        f"an emptyDir of {format_bytes(volume.limit_bytes)}"
        if volume.limit_bytes
        else f"a volume ({volume.kind})"
    )


RULE = Rule(
    "unbounded-disk-tier",
    "warning",
    "A disk tier that never deletes.",
    "vLLM's fs tier has no capacity and removes nothing; so does SGLang's `file` backend, which is a reference "
    "implementation. At a store rate of 1 GB/s a disk of 3.6 TB is full in an hour.",
    '"secondary_tiers":[{"type":"fs","root_dir":"/mnt/nvme"}]',
    "a tier with a capacity, or a cleaner that removes the oldest files",
    "vLLM 0.22 and newer; SGLang in all versions",
    "vLLM PR 52784, issue 54779; SGLang PR 39880",
    check,
)
