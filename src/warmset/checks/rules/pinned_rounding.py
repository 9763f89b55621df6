"""Pinned allocations that are rounded up to a power of two."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.checks.sizing import HostTier, budgets, next_power_of_two, size_setting
from warmset.servers import Version
from warmset.units import format_bytes

_TENSORS = re.compile(r"Allocating (\d{1,5}) CPU tensors")
# LMCache allocated its pool in one pinned torch tensor before it brought its own allocator.
_LMCACHE_FIXED = Version(0, 3, 7)


def check(case: Case) -> Iterator[Answer]:
    """Tiers of versions that pin torch tensors, with what they really take."""
    for tier in case.tiers:
        tensors, known = _tensors(case, tier)
        if tensors == 0:
            continue
        pieces = tensors * (tier.ranks if tier.per_rank else case.launch.ranks)
        each = tier.written_bytes // (tensors if tier.per_rank else pieces)
        real = next_power_of_two(each) * pieces * tier.replicas
        if real < 1.05 * tier.node_bytes or any(tier.node_bytes > budget.bytes for budget in budgets(case)):
            continue  # what does not fit unrounded is said once, by the rules about memory
        yield _hit(case, tier, real, pieces, each, known)


def _tensors(case: Case, tier: HostTier) -> tuple[int, bool]:
    """Tensors per rank (0: allocated otherwise) and whether that number is known."""
    if tier.kind == "lmcache":
        return (1, True) if case.lmcache_known and case.lmcache_engine.version < _LMCACHE_FIXED else (0, True)
    if tier.kind != "native" or case.assumed or tier.spec in case.shm_specs:
        return 0, True
    found = case.log.search(_TENSORS) if case.log is not None else None
    return (int(found[0][1]), True) if found is not None else (1, not case.model.hybrid)


def _hit(case: Case, tier: HostTier, real: int, pieces: int, each: int, known: bool) -> Hit:
    taken = format_bytes(next_power_of_two(each))
    share = f"{pieces} pieces of {format_bytes(each)} take {taken} each, " if pieces > 1 else ""
    message = (
        f"pinned memory is rounded up to a power of two: {share}{format_bytes(real)} in all for "
        f"{format_bytes(tier.node_bytes)} asked"
    )
    severity: Severity = "note" if real < 1.3 * tier.node_bytes else "warning"
    top = real if known else max(real, 2 * tier.node_bytes)
    for budget in budgets(case):
        if top > 0.9 * budget.bytes:
            severity = "error" if budget.kind == "limit" and (known or case.model.hybrid) else "warning"
            message += f", against {budget.words}"
            break
    if not known:
        message += "; with several KV-cache groups the pieces are more and smaller, and up to twice the size is taken"
    upper = next_power_of_two(each) * pieces // (1 if not tier.per_rank else pieces)
    fix = size_setting(case, tier, upper // 2)
    if known and severity != "error" and all(real <= 0.9 * budget.bytes for budget in budgets(case)):
        fix += f", or {size_setting(case, tier, upper)}, which takes no more than is taken now"
    return Hit(message, tier.at, severity, fix, confidence="high" if known else "medium")


RULE = Rule(
    "pinned-rounding",
    "warning",
    "A pinned tier that takes up to twice its size.",
    "PyTorch rounds a pinned allocation up to the next power of two. vLLM pinned one tensor for each rank and KV "
    "tensor "
    "until its tier moved to /dev/shm (TieringOffloadingSpec 0.22, CPUOffloadingSpec 0.27), LMCache one per rank "
    "in its "
    "first releases. The factor is a sawtooth, not a constant: a size whose pieces are powers of two costs "
    "nothing extra.",
    "vllm serve M -tp 2 --kv-offloading-size 80   # vLLM 0.25: 2 × 64 GiB",
    "vllm serve M -tp 2 --kv-offloading-size 64",
    "vLLM 0.11 to 0.26 (plain CPUOffloadingSpec); LMCache before 0.3.7",
    "vLLM issue 53042, PRs 48436 and 50094; LMCache issue 1147",
    check,
)
