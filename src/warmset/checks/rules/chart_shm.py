"""Shared memory in the production-stack chart."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.rules.shm_too_small import in_shm


def check(case: Case) -> Iterator[Answer]:
    """Tensor parallelism without a size, and a size that the chart does not mount."""
    if case.launch.origin != "helm" or case.launch.server != "vllm":
        return
    values, tp = case.launch.settings, case.launch.settings.get("vllmConfig.tensorParallelSize")
    shm = values.get("shmSize")
    if tp is not None and case.launch.tensor_parallel > 1 and shm is None:
        yield Hit(
            (
                "`shmSize` is not set: ranks talk through /dev/shm, which older charts left at 64 MiB and chart "
                "0.1.12 gives 20Gi"
            ),
            values.get("vllmConfig.tensorParallelSize\0key", tp),
            fix='shmSize: "20Gi"',
        )
    if (
        shm is not None
        and tp is None
        and (any(in_shm(case, t) for t in case.tiers) or case.launch.tensor_parallel > 1)
    ):
        yield Hit(
            "the chart mounts /dev/shm only where vllmConfig.tensorParallelSize is set: `shmSize` has no effect here",
            shm,
            fix="tensorParallelSize: 1 in vllmConfig",
        )


RULE = Rule(
    "chart-shm",
    "warning",
    "The chart's /dev/shm.",
    "Ranks and, since vLLM 0.27, the native host tier use /dev/shm. The production-stack chart mounts it only where "
    "`tensorParallelSize` is set, with `shmSize` (20Gi if not given; older charts had no such value).",
    "vllmConfig: {tensorParallelSize: 2}",
    'vllmConfig: {tensorParallelSize: 2}\nshmSize: "20Gi"',
    "production-stack",
    "production-stack issue 44, PR 105; chart 0.1.12, rendered",
    check,
)
