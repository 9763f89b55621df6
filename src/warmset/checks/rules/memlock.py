"""The limit of locked memory, which CUDA's registration does not need."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """Docker without an unlimited memlock and with a large tier: only a note."""
    resources = case.launch.resources
    if resources.runtime not in ("docker", "compose", "systemd") or resources.memlock_unlimited is not False:
        return
    for tier in case.tiers:
        if tier.node_bytes >= 64 * 2**30 and tier.kind in ("native", "simple", "lmcache"):
            yield Hit(
                "the limit of locked memory is the default; CUDA's host registration does not need it, code that uses "
                "mlock (Ascend, RDMA) does",
                tier.at,
                fix="--ulimit memlock=-1"
                if resources.runtime == "docker"
                else "memlock: -1 (LimitMEMLOCK=infinity)",
                confidence="low",
            )
            return


RULE = Rule(
    "memlock",
    "note",
    "The limit of locked memory may matter.",
    "Where host memory is pinned with mlock, a small `ulimit -l` makes that fail. vLLM and LMCache on CUDA register "
    "memory with the driver, which does not count to that limit; Ascend and RDMA transports do. In Kubernetes the "
    "limit comes from the container runtime's own unit (LimitMEMLOCK).",
    "docker run vllm/vllm-openai --model M --kv-offloading-size 200",
    "docker run --ulimit memlock=-1 vllm/vllm-openai --model M --kv-offloading-size 200",
    "all versions",
    "LMCache-Ascend issue 5",
    check,
)
