"""A /dev/shm that cannot hold the tier that lives in it."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule
from warmset.checks.record import DEFAULT_SHM_BYTES
from warmset.checks.sizing import HostTier
from warmset.units import GIB, format_bytes

_FAILED = re.compile(r"(\[Errno 14\] Bad address|Insufficient space in /dev/shm)", re.IGNORECASE)
_REGION = re.compile(r"shared_offload_region|vllm_offload_|madvise|/dev/shm", re.IGNORECASE)
# Of the container's memory, beside the tier.
_SERVER_BYTES = 32 * GIB


def check(case: Case) -> Iterator[Answer]:
    """Tiers kept in /dev/shm against its size, and the failure in a log."""
    for tier in case.tiers:
        if not in_shm(case, tier):
            continue
        size = case.launch.resources.shm_bytes
        if size is None:
            if not case.launch.resources.container and case.launch.origin in ("shell", "command"):
                yield Missing(
                    "size of /dev/shm",
                    f"the tier needs {format_bytes(tier.node_bytes)} there: see `df -h /dev/shm`",
                )
            continue
        if size and too_small(case, tier):
            yield _hit(case, tier, size)
    log = case.log
    if log is None:
        return
    found = log.search(_FAILED)
    if found is not None and ("Insufficient" in found[0][1] or log.search(_REGION) is not None):
        yield Hit(
            "the tier does not fit /dev/shm, or files of killed servers (vllm_offload_*.mmap) fill it; "
            "this is not a fault of the driver",
            found[1],
            fix="rm -f /dev/shm/vllm_offload_*.mmap while no server runs, then a larger /dev/shm",
        )


def in_shm(case: Case, tier: HostTier) -> bool:
    """Whether this version keeps the tier in /dev/shm."""
    if tier.kind != "native" or tier.spec not in case.shm_specs:
        return False
    # On ROCm and CPU builds only the tiering spec maps a file there.
    return case.launch.platform not in ("rocm", "cpu") or tier.spec == "TieringOffloadingSpec"


def too_small(case: Case, tier: HostTier) -> bool:
    """Whether the tier lives in a /dev/shm that is known to be too small for it."""
    size = case.launch.resources.shm_bytes
    return bool(size) and (size or 0) < tier.node_bytes and in_shm(case, tier)


def wanted_gib(tier: HostTier) -> int:
    """What /dev/shm should be for a tier in it."""
    return -(-tier.node_bytes * 12 // 10 // GIB) + 1


def wanted_memory_gib(tier: HostTier) -> int:
    """What the container's memory should be with it: the pages of /dev/shm count to it, beside the server's own."""
    return max(wanted_gib(tier), -(-(tier.node_bytes * 11 // 10 + _SERVER_BYTES) // GIB))


def _hit(case: Case, tier: HostTier, size: int) -> Hit:
    resources = case.launch.resources
    default = " (the default)" if size == DEFAULT_SHM_BYTES and resources.shm_word is None else ""
    wanted = wanted_gib(tier)
    fix = {
        "docker": f"--shm-size {wanted}g, or --ipc=host",
        "compose": f"shm_size: {wanted}gb",
        "helm": f'shmSize: "{wanted}Gi" (mounted only where vllmConfig.tensorParallelSize is set)',
    }.get(resources.runtime, f"an emptyDir of medium Memory with sizeLimit {wanted}Gi at /dev/shm")
    memory = wanted_memory_gib(tier)
    if resources.memory_limit_bytes and resources.memory_limit_bytes < memory * GIB:
        fix += f", and a memory limit of {memory}Gi"
    return Hit(
        (
            f"shared memory (/dev/shm) has {format_bytes(size)}{default} and the tier needs "
            f"{format_bytes(tier.node_bytes)} in it"
        ),
        resources.shm_word or tier.at,
        fix=fix,
    )


RULE = Rule(
    "shm-too-small",
    "error",
    "The tier does not fit /dev/shm.",
    "vLLM keeps its host tier in a file in /dev/shm: TieringOffloadingSpec since 0.22, the plain spec since 0.27. A "
    "container has 64 MiB there unless it is told otherwise. Up to 0.27 the server dies with `Bad address` or a bus "
    "error; since 0.28 it says `Insufficient space in /dev/shm`. What is in /dev/shm counts to the memory limit.",
    "docker run vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 32",
    "docker run --shm-size 40g vllm/vllm-openai:v0.28.0 --model M --kv-offloading-size 32",
    "vLLM 0.27 and newer; TieringOffloadingSpec 0.22 and newer",
    "vLLM PRs 50094, 50358; KServe PR 5949",
    check,
)
