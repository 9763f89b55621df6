"""The region that the server created against the one that was asked for."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.units import GB, format_bytes

_LOG = re.compile(r"Created mmap file[^\n]{0,200}?\((?P<size>\d+(?:\.\d+)?) ?(?P<unit>GB|GiB)\)")
# The region is rounded to whole chunks, and the log to two digits.
_TOLERANCE = 0.1


def check(case: Case) -> Iterator[Answer]:
    """Decimal GB in the log, GiB in the flag: compared in bytes."""
    found = case.log.search(_LOG) if case.log is not None else None
    if found is None:
        return
    match, word = found
    created = float(match["size"]) * (GB if match["unit"] == "GB" else 2**30)
    for tier in case.tiers:
        if tier.kind == "native" and abs(created / tier.written_bytes - 1) > _TOLERANCE:
            yield Hit(
                f"the region has {format_bytes(created)} and {format_bytes(tier.written_bytes)} were asked for "
                f"({created / tier.written_bytes:.0%}): the log is of another configuration, or part of the size "
                f"is lost",
                word,
            )


RULE = Rule(
    "region-size",
    "warning",
    "The region in the log is not the one that was asked for.",
    "`--kv-offloading-size` counts GiB, the log prints decimal GB: 12 GiB are 12.88 GB, and the region is "
    "rounded down to "
    "whole chunks. A larger difference means another configuration.",
    "--kv-offloading-size 24 and `Created mmap file … (12.88 GB)`",
    "--kv-offloading-size 12 and `Created mmap file … (12.88 GB)`",
    "vLLM 0.22 and newer",
    "public report of September 2026",
    check,
)
