"""A running server whose tier is not at work."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule, Severity

_OF_A_TIER = re.compile(r"kv_offload|lmcache|kv_transfer|mooncake")


def check(case: Case) -> Iterator[Answer]:
    """The verdict over everything since the server started, and the pools that it states."""
    snapshot = case.inputs.snapshot
    if snapshot is None or case.launch.origin != "running":
        return
    from warmset.meters import judge, meters, window

    engine = case.engine if not case.assumed else None
    verdict = judge(meters(window(None, snapshot), engine))
    size = case.launch.flag("--kv-offloading-size")
    at = size.word if size is not None else case.launch.where
    stated = (
        f"`--kv-offloading-size {size.value.value}` is set"
        if size is not None and size.value is not None
        else ""
    )
    if stated and not any(_OF_A_TIER.search(name) for name in snapshot.samples):
        yield Hit(
            f"{stated} and the server exports no counters of a tier: another connector runs, or none",
            at,
            "error",
        )
    elif verdict.name == "no_tier":
        yield Hit(
            "no KV tier is attached to this server", at, "note", "vllm serve … --kv-offloading-size GIB"
        )
    elif verdict.reason == "stores_without_loads":
        yield Hit(
            f"the tier stores and never loads: {verdict.summary}", at, "error", _step(verdict.next_steps)
        )
    elif verdict.name == "inert":
        yield Hit(
            f"the tier is attached and not at work: {verdict.summary}", at, "error", _step(verdict.next_steps)
        )
    elif verdict.name in ("tier_too_small", "hurting", "thrashing"):
        severity: Severity = "warning"
        yield Hit(verdict.summary, at, severity, _step(verdict.next_steps))
    elif verdict.name == "undecided":
        yield Missing("enough traffic", f"whether the tier is at work: {verdict.summary}")
    yield from _pool(case)


def _pool(case: Case) -> Iterator[Answer]:
    snapshot = case.inputs.snapshot
    rows = snapshot.samples.get("vllm:cache_config_info", ()) if snapshot is not None else ()
    labels = dict(rows[0].labels) if rows else {}
    tokens = labels.get("kv_cache_size_tokens")
    blocks, block = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
    if tokens is None and blocks.isdigit() and block.isdigit():
        tokens = str(int(blocks) * int(block))
    if tokens is not None and tokens.isdigit():
        yield Hit(
            f"the device pool holds {int(tokens):,} tokens; an inclusive tier must hold more than that",
            case.launch.where,
            "note",
        )


def _step(steps: object) -> str | None:
    first = next(iter(steps), None)  # type: ignore[call-overload]  # a tuple of steps
    return None if first is None else str(first.command or first.text)


RULE = Rule(
    "running-tier",
    "error",
    "A running server's tier is not at work.",
    "A server can run for weeks with a connector that was replaced, a tier that only stores, or none at all, and "
    "be healthy "
    "all the time. Bytes loaded and external hits are the proof of work. The whole life of the server is judged "
    "here; for a "
    "window of traffic use `warmset measure`.",
    "vllm:kv_offload_store_bytes_total 2.8e11 and vllm:kv_offload_load_bytes_total 0",
    "vllm:external_prefix_cache_hits_total that grows",
    "all versions with metrics of a tier",
    "warmset measure",
    check,
)
