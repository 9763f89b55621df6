"""Mooncake's segment size, which counts for each worker."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.checks.record import quantity
from warmset.checks.text import Word
from warmset.units import format_bytes

_FULL = re.compile(r"NO_AVAILABLE_HANDLE")


def check(case: Case) -> Iterator[Answer]:
    """The size in a Mooncake file or variable, times the workers; a full pool in a log."""
    full = case.log.search(_FULL) if case.log is not None else None
    size = _size(case)
    if size is None:
        if full is not None:
            yield Hit(
                "Mooncake's pool is full",
                full[1],
                fix="a larger global_segment_size (each worker brings one)",
            )
        return
    value, word = size
    ranks = case.local_ranks
    severity: Severity = "warning" if full is not None else "note"
    state = "the pool is full: " if full is not None else ""
    total = value * ranks
    if ranks > 1 or full is not None:
        yield Hit(
            f"{state}`global_segment_size` counts for each worker: {ranks} × {value / 1e9:.4g} GB = "
            f"{total / 1e9:.4g} GB "
            f"({format_bytes(total)}) on this machine",
            full[1] if full is not None and word is None else word or case.launch.where,
            severity,
            f"global_segment_size: {value * 2}" if full is not None else None,
        )


def _size(case: Case) -> tuple[int, Word | None] | None:
    for node in case.inputs.mooncake:
        found = node.get("global_segment_size")
        if found is not None and found.kind == "scalar" and (value := quantity(found.value)):
            return value, found.word
    env = case.launch.env.get("MOONCAKE_GLOBAL_SEGMENT_SIZE")
    if env is not None and (value := quantity(env.value)):
        return value, env
    extra = case.launch.flag("--hicache-storage-backend-extra-config")
    if extra is not None and extra.value is not None:
        match = re.search(r'"global_segment_size"\s*:\s*"?([0-9.]+ ?[a-zA-Z]*)', extra.value.value)
        if match and (value := quantity(match[1].replace(" ", ""))):
            return value, extra.value
    return None


RULE = Rule(
    "mooncake-segment",
    "note",
    "Mooncake's segment is per worker.",
    "Each worker brings a segment of `global_segment_size`; the pool of a machine is workers × size. Puts fail with "
    "NO_AVAILABLE_HANDLE when the pool is full.",
    "global_segment_size: 3355443200 with -tp 2",
    "global_segment_size: 21474836480   # 2 × 20 GiB",
    "all versions of Mooncake",
    "Mooncake issue 197; LMCache PR 941",
    check,
)
