"""Tiers that do not work across machines."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule
from warmset.servers import Version
from warmset.units import format_bytes

_HALVED = (Version(0, 22), Version(0, 27, 1))


def check(case: Case) -> Iterator[Answer]:
    """LMCache's lookup, vLLM's region and its lower tiers with ranks on several machines."""
    launch = case.launch
    if not case.vllm or not case.offloads:
        return
    if case.nodes == 1:
        ray = launch.flag("--distributed-executor-backend")
        spread = ray is not None and ray.value is not None and ray.value.value == "ray" and launch.ranks > 1
        if (spread or launch.ranks > 8) and case.facts.gpus is None and launch.resources.gpus is None:
            yield Missing("GPUs per machine", "whether the ranks span machines: give --gpus")
        return
    words = f"{launch.ranks} ranks on {case.nodes} machines"
    connector = case.in_process
    if connector is not None:
        yield Hit(
            (
                f"{words}: LMCache inside the engine looks up over a local socket and cannot reach ranks on another "
                f"machine"
            ),
            connector.key(connector.name),
            fix='"kv_connector": "LMCacheMPConnector" with one `lmcache server` on each machine',
        )
    native = case.native
    if native is None:
        return
    size = native.extra.get("cpu_bytes_to_use")
    if isinstance(size, (int, float)) and _HALVED[0] <= case.version <= _HALVED[1]:
        useful = size * case.local_ranks / launch.ranks
        yield Hit(
            f"{words}: the region of each machine has slots for all {launch.ranks} ranks, so "
            f"{format_bytes(useful)} of "
            f"{format_bytes(size)} ({useful:,.0f} bytes) are usable",
            native.word if case.kv.by_flag else native.key("cpu_bytes_to_use"),
            "note",
            f"count {format_bytes(useful)} for each machine",
        )
    if native.tiers:
        yield Hit(
            f"{words}: lower tiers are not supported across machines",
            native.key("secondary_tiers"),
            "warning",
            "one engine on each machine (data parallel)",
        )
    elif isinstance(size, (int, float)) and _HALVED[0] <= case.version <= _HALVED[1]:
        yield Hit(
            f"{words}: a tier over several machines is little tested, and lower tiers are not supported there",
            native.word if case.kv.by_flag else native.key("cpu_bytes_to_use"),
            "warning",
            "one engine on each machine (data parallel)",
            "medium",
        )


RULE = Rule(
    "cross-node",
    "error",
    "A tier whose ranks are on several machines.",
    "LMCache inside the engine looks up over a socket on one machine. vLLM 0.27 and older size the region of "
    "each machine "
    "for all ranks of the engine and use only the part of the local ones. Lower tiers expect all ranks on one "
    "machine.",
    (
        "vllm serve M -tp 8 --nnodes 2 --kv-transfer-config "
        '\'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\''
    ),
    "vllm serve M -tp 8 …   # one machine for each engine",
    "all versions; the region until vLLM 0.27",
    "LMCache issue 2755; vLLM PR 53474",
    check,
)
