"""Block hashes that differ between processes."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.kv import Connector
from warmset.checks.lmcache import Setting

_LOG = re.compile(
    r"(Centralized cache sharing detected but PYTHONHASHSEED|builtin hash without "
    r"PYTHONHASHSEED|PYTHONHASHSEED (?:is )?not set)"
)


def check(case: Case) -> Iterator[Answer]:
    """Shared or persistent tiers of vLLM and LMCache without one seed for all processes."""
    if not case.vllm:
        return
    log = case.log
    if log is not None and (found := log.search(_LOG)) is not None:
        yield Hit(
            "the server says itself that its hashes are random: shared and persistent tiers never hit",
            found[1],
            "error",
            "PYTHONHASHSEED=0 in every process",
        )
    seed = case.launch.env.get("PYTHONHASHSEED")
    if seed is not None and (not seed.known or seed.value.strip() not in ("", "random")):
        return
    if case.launch.origin in ("log", "settings"):
        return
    connector = _native(case)
    if connector is not None:
        yield from _judge_native(case, connector)
    remote = case.lmcache.remote
    if remote is not None and (case.in_process is not None or not case.launch.complete):
        yield from _judge_lmcache(case, remote)


def _native(case: Case) -> Connector | None:
    native = case.native
    if native is not None and any(
        t.get("type") in ("fs", "fs_python", "obj", "p2p", "kvcr") for t in native.tiers
    ):
        return native
    return case.kv.named("MooncakeStoreConnector", "HF3FSKVConnector")


def _judge_native(case: Case, connector: Connector) -> Iterator[Answer]:
    algorithm = case.launch.flag("--prefix-caching-hash-algo")
    name = algorithm.value.value if algorithm is not None and algorithm.value is not None else ""
    at = connector.key("secondary_tiers") if connector.tiers else connector.key("kv_connector")
    if case.engine.default("hash_seed") == "fixed" and not case.assumed:
        if name.startswith("xxhash"):
            yield Hit(
                (
                    f"`{name}` needs PYTHONHASHSEED also where sha256 does not: the lower tier never hits after a "
                    f"restart"
                ),
                at,
                "error",
                "PYTHONHASHSEED=0",
            )
        return
    shared = case.replicas > 1
    effect = (
        f"{case.replicas} replicas never hit each other's blocks"
        if shared
        else "nothing in the lower tier hits after a restart"
    )
    if case.assumed:
        yield Hit(
            f"on vLLM 0.28 and older block hashes start from random bytes without PYTHONHASHSEED: {effect}",
            at,
            "warning",
            "PYTHONHASHSEED=0",
            "medium",
        )
        return
    yield Hit(
        f"block hashes start from random bytes without PYTHONHASHSEED: {effect}",
        at,
        "error",
        "PYTHONHASHSEED=0",
    )


def _judge_lmcache(case: Case, remote: Setting) -> Iterator[Answer]:
    algorithm = case.lmcache.get("pre_caching_hash_algorithm")
    if (
        algorithm is not None
        and algorithm.value not in ("builtin", "")
        and case.engine.default("hash_seed") == "fixed"
    ):
        return
    many = case.replicas > 1
    effect = (
        f"{case.replicas} engines never hit each other's chunks" if many else "nothing hits after a restart"
    )
    yield Hit(
        f"LMCache hashes with Python's own hash, which differs in every process without PYTHONHASHSEED: {effect}",
        remote.at,
        "error" if many or not _only_this(case) else "warning",
        "PYTHONHASHSEED=0 in every process",
        "high" if many else "medium",
    )


def _only_this(case: Case) -> bool:
    """Whether the input is one launch that nothing else shares a store with."""
    return len([x for x in case.inputs.launches if x.server == "vllm"]) == 1


RULE = Rule(
    "hash-seed",
    "error",
    "A shared or persistent tier without a common hash seed.",
    "Up to vLLM 0.28 the first block hash starts from random bytes, and LMCache in-process uses Python's own "
    "hash. Both "
    "differ in every process unless PYTHONHASHSEED is set to the same value. Tiers in host memory of one engine need "
    "none; file, object and remote tiers do, to be shared or to survive a restart. vLLM 0.29 starts from a fixed "
    "seed "
    "for sha256 (xxhash still needs the variable).",
    "replicas: 2 with LMCACHE_REMOTE_URL=lm://cache:65432 and no PYTHONHASHSEED",
    'env: [{name: PYTHONHASHSEED, value: "0"}]',
    "vLLM 0.28 and older; LMCache in-process in all versions",
    "LMCache issues 1139, 2581; vLLM PR 44415; v1/core/kv_cache_utils.py",
    check,
)
