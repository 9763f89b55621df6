"""A /dev/shm that fits one region and not the one that a killed server leaves behind."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.rules.shm_too_small import in_shm
from warmset.units import GIB, format_bytes


def check(case: Case) -> Iterator[Answer]:
    """Volumes that outlive the container, in versions that leave the file, unless something removes it."""
    resources = case.launch.resources
    size = resources.shm_bytes
    if not case.vllm or not resources.shm_survives_restart or not size:
        return
    stale = case.engine.default("dev_shm_stale_after_kill")
    if not isinstance(stale, list) or "vllm_offload_" in case.launch.where.text.source.text:
        return
    for tier in case.tiers:
        if in_shm(case, tier) and tier.spec in stale and tier.node_bytes <= size < 2 * tier.node_bytes:
            yield Hit(
                f"the volume at /dev/shm has {format_bytes(size)}: one region of {format_bytes(tier.node_bytes)} "
                f"fits, and the "
                f"one of a "
                "killed server stays in the volume, so every restart of the container fails until the pod is deleted",
                resources.shm_word or tier.at,
                fix=(
                    f"rm -f /dev/shm/vllm_offload_*.mmap before the server starts, or sizeLimit "
                    f"{-(-2 * tier.node_bytes // GIB) + 1}Gi"
                ),
            )


RULE = Rule(
    "shm-restart",
    "warning",
    "A restart of the container finds /dev/shm full.",
    "A volume at /dev/shm belongs to the pod and survives the container. A server that was killed leaves its region "
    "there (vLLM 0.30 fixed this for the plain spec only), and the next start needs a second one. Remove stale files "
    "before the server starts, or make room for two.",
    "emptyDir: {medium: Memory, sizeLimit: 24Gi}   # with a tier of 16 GiB",
    "command: [sh, -c, 'rm -f /dev/shm/vllm_offload_*.mmap; exec vllm serve …']",
    "vLLM 0.22 and newer",
    "vLLM issue 54002, PR 51317",
    check,
)
