"""Regions larger than what can be pinned at once."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.sizing import size_setting
from warmset.units import GIB, format_bytes

# One cudaHostRegister call of 512 GiB or more fails.
_CUDA_LIMIT_BYTES = 512 * GIB
# Sizes proven to register on ROCm: 128e9 on gfx942, 256e9 on gfx950; twice that failed.
_ROCM_LIMIT_BYTES = 256 * 10**9
_FAILED = re.compile(
    r"(cudaHostRegister failed|hipHostRegister failed|Unable to pin host memory)[^\n]{0,120}"
)


def check(case: Case) -> Iterator[Answer]:
    """One region past the limit of its platform, and the failure in a log."""
    rocm = case.launch.platform == "rocm"
    limit = _ROCM_LIMIT_BYTES if rocm else _CUDA_LIMIT_BYTES
    for tier in case.tiers:
        if tier.kind not in ("native", "simple", "hicache", "hicache-twice") or tier.written_bytes < limit:
            continue
        if tier.kind == "native" and not _one_region(case, tier.spec):
            continue
        where = "ROCm" if rocm else "CUDA"
        yield Hit(
            f"one region of {format_bytes(tier.written_bytes)} cannot be registered on {where} "
            f"(from {format_bytes(limit)} on): it stays unpinned and transfers are slow",
            tier.at,
            fix=size_setting(case, tier, (limit - 1) // GIB * GIB)
            if not rocm
            else "a smaller tier: 128 GB is proven on gfx942",
            confidence="medium" if rocm else "high",
        )
    log = case.log
    if log is not None and (found := log.search(_FAILED)) is not None:
        yield Hit("the host tier is not pinned on at least one rank: transfers are slow or stale", found[1])


def _one_region(case: Case, spec: str) -> bool:
    """Whether the tier is one mapped region rather than many pinned tensors."""
    users = case.engine.default("dev_shm_users")
    return (
        case.launch.platform == "rocm" or case.since("0.26.0") or (isinstance(users, list) and spec in users)
    )


RULE = Rule(
    "pin-limit",
    "warning",
    "A host region past what can be pinned at once.",
    "A single registration of 512 GiB (549,755,813,888 bytes) or more fails on CUDA; ROCm has a lower ceiling for each "
    "process. The server goes on with unpinned memory: transfers become slow and nothing else tells. Stay below, or "
    "use several replicas with a tier each.",
    '{"kv_connector":"OffloadingConnector", … "cpu_bytes_to_use":600000000000}',
    '{"kv_connector":"OffloadingConnector", … "cpu_bytes_to_use":549000000000}',
    "vLLM 0.26 and newer, TieringOffloadingSpec 0.22 and newer; SGLang HiCache",
    "vLLM issues 51080 and 52656",
    check,
)
