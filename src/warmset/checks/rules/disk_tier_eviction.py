"""An unbounded file tier on a volume whose limit evicts the pod."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.rules.unbounded_disk_tier import describe, volume_of


def check(case: Case) -> Iterator[Answer]:
    """vLLM's fs tier on an emptyDir with sizeLimit."""
    native = case.native
    for tier in native.tiers if native is not None else ():
        volume = volume_of(case, str(tier.get("root_dir", "")))
        if (
            tier.get("type") in ("fs", "fs_python")
            and volume is not None
            and volume.kind == "emptydir"
            and volume.limit_bytes
        ):
            yield Hit(
                (
                    f"the file tier never deletes and lies on {describe(volume)}: when that is exceeded the kubelet "
                    f"evicts the pod"
                ),
                volume.word or native.key("root_dir"),  # type: ignore[union-attr]  # there is a tier, so a connector
                fix="a persistent volume claim, or a tier with a capacity below the limit",
            )


RULE = Rule(
    "disk-tier-eviction",
    "warning",
    "A file tier that gets its pod evicted.",
    "Kubernetes evicts a pod whose emptyDir exceeds its sizeLimit. vLLM's fs tier has no capacity, so it will.",
    "root_dir on emptyDir: {sizeLimit: 100Gi}",
    "root_dir on a persistent volume claim",
    "vLLM 0.22 and newer",
    "KServe PR 5740",
    check,
)
