"""A tier that is no larger than the device pool and so only mirrors it."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule
from warmset.checks.sizing import RESERVE_RATIO, HostTier, size_setting
from warmset.units import GIB, format_bytes


def check(case: Case) -> Iterator[Answer]:
    """Native, LMCache and KVBM tiers against a device pool that a flag or the log states."""
    for tier in case.tiers:
        if tier.kind not in ("native", "simple", "lmcache", "kvbm"):
            continue
        device = device_pool_bytes(case)
        if device is None:
            yield Missing(
                "device pool", "whether the tier is larger than the device pool: give the start-up log too"
            )
            continue
        if tier.node_bytes <= device * tier.replicas:
            yield Hit(
                f"the tier ({format_bytes(tier.node_bytes)}) is not larger than the device pool "
                f"({format_bytes(device)}): it only "
                "mirrors what the device holds, and adds nearly no hits",
                tier.at,
                fix=_fix(case, tier, device),
            )
    if case.sglang:
        yield from _hicache(case)


def device_pool_bytes(case: Case) -> int | None:
    """KV memory of all ranks of one engine, from `--kv-cache-memory-bytes` or the log."""
    flag = case.launch.flag("--kv-cache-memory-bytes", "--kv-cache-memory")
    if flag is not None and flag.number:
        return int(flag.number) * case.launch.ranks
    log = case.log
    if log is not None and log.pool_bytes_per_rank is not None:
        return int(log.pool_bytes_per_rank[0] * max(case.launch.ranks, log.pool_ranks))
    stated = case.launch.env.get("DYN_KVBM_GPU_CACHE_GB")
    if stated is not None and stated.value.replace(".", "", 1).isdigit():
        return int(float(stated.value) * 10**9)
    return None


def _hicache(case: Case) -> Iterator[Answer]:
    """SGLang's log gives both pools in tokens."""
    from warmset.checks.rules.hicache_ratio import pools_in_tokens

    size = case.launch.flag("--hicache-size", "--hicache-ratio")
    device, host = pools_in_tokens(case)
    if size is not None and device and host and host < device:
        yield Hit(
            (
                f"the host pool holds {host:,} tokens and the device pool {device:,}: the host pool must be the "
                f"larger one"
            ),
            size.word,
            fix=f"--hicache-ratio 2, or --hicache-size above {-(-device * int(size.number or 1) // host)}",
        )


def _fix(case: Case, tier: HostTier, device: int) -> str:
    wanted = -(-int(device * (1 + RESERVE_RATIO)) // GIB)
    if tier.kind == "kvbm":
        return f"DYN_KVBM_CPU_CACHE_GB={-(-int(device * 1.1) // 10**9)}"
    if tier.kind == "lmcache":
        return f"LMCACHE_MAX_LOCAL_CPU_SIZE above {-(-wanted // max(1, tier.ranks))}"
    ample = wanted + wanted // 2
    if tier.kind in ("native", "simple") and not case.kv.by_flag:
        return f"above {-(-device // GIB)} GiB, such as {size_setting(case, tier, ample * GIB)} ({ample} GiB)"
    return f"--kv-offloading-size above {-(-device // GIB)}, such as {ample}"


RULE = Rule(
    "mirror-tier",
    "warning",
    "A tier no larger than the device pool adds nothing.",
    "vLLM's host tier, LMCache, HiCache and KVBM write a block when it is computed, so the tier also holds what "
    "the device "
    "holds. Capacity is the larger of the two, not the sum: a tier below the device pool is a copy. The warm set "
    "must be larger than the device pool, and the tier must hold all of it.",
    "vllm serve M -tp 4 --kv-cache-memory-bytes 60G --kv-offloading-size 64",
    "vllm serve M -tp 4 --kv-cache-memory-bytes 60G --kv-offloading-size 400",
    "all versions",
    "measured on vLLM 0.32; vLLM PR 55907; Dynamo PR 6506",
    check,
)
