"""The tiering spec with nothing below it."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """TieringOffloadingSpec without secondary_tiers, and in versions without it."""
    native = case.native
    if native is None or native.spec != "TieringOffloadingSpec":
        return
    if case.engine.spec("TieringOffloadingSpec") is None:
        yield Hit(
            f"{case.engine} has no TieringOffloadingSpec: it came with 0.22",
            native.key("spec_name"),
            "error",
            "vLLM 0.23 or newer",
        )
    elif not native.extra.get("secondary_tiers"):
        yield Hit(
            "TieringOffloadingSpec has no lower tier: for host memory alone the plain spec does the same with less",
            native.key("spec_name"),
            fix='"spec_name": "CPUOffloadingSpec"',
        )


RULE = Rule(
    "tiering-without-tiers",
    "note",
    "TieringOffloadingSpec without lower tiers.",
    "The tiering spec exists to put tiers below host memory. Without one it only brings its own limits: a region in "
    "/dev/shm from 0.22 on and stale files after a kill.",
    '"spec_name":"TieringOffloadingSpec","cpu_bytes_to_use":10737418240',
    '"spec_name":"CPUOffloadingSpec","cpu_bytes_to_use":10737418240',
    "vLLM 0.22 and newer",
    "KServe PR 6086",
    check,
)
