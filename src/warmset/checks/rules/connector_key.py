"""Connector keys that are missing, misspelt or contradict each other."""

from collections.abc import Iterator
from difflib import get_close_matches

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.kv import Connector
from warmset.checks.rules.renamed_key import versions_reading
from warmset.units import GIB, format_bytes, format_counted

# Connectors whose keys are all known; others may pass keys on to a library.
_CLOSED = ("OffloadingConnector", "SimpleCPUOffloadConnector")


def check(case: Case) -> Iterator[Answer]:
    """Keys of kv_connector_extra_config, against the version's own list."""
    if not case.vllm:
        return
    for connector in case.kv.connectors:
        if case.engine.connector(connector.name) is None or connector.fields.get("kv_connector_module_path"):
            continue
        if not case.kv.by_flag:
            yield from _missing(case, connector)
            yield from _misspelt(case, connector)
        yield from _contradictions(connector, case)


def _missing(case: Case, connector: Connector) -> Iterator[Answer]:
    if connector.name != "OffloadingConnector" or connector.extra.get("spec_module_path"):
        return
    size_keys = ("cpu_bytes_to_use", "num_cpu_blocks")
    if any(key in connector.extra for key in size_keys):
        return
    wanted = next(
        (k for k in size_keys if k in case.engine.extra_config_keys(connector.name)), "cpu_bytes_to_use"
    )
    near = [k for k in connector.extra if get_close_matches(k, size_keys, n=1, cutoff=0.7)]
    at = connector.key(near[0]) if near else connector.key("kv_connector")
    spelt = f" (`{near[0]}` is not it)" if near else ""
    yield Hit(
        f"OffloadingConnector has no size: `{wanted}` is required{spelt}",
        at,
        "error",
        f'"kv_connector_extra_config": {{"{wanted}": {64 * GIB if wanted.startswith("cpu") else "BLOCKS"}}}',
    )


def _misspelt(case: Case, connector: Connector) -> Iterator[Answer]:
    known = case.engine.extra_config_keys(connector.name)
    if not known or connector.extra.get("spec_module_path"):
        return
    for key in connector.extra:
        if key in known or key.startswith("lmcache.") or versions_reading(connector.name, key):
            continue
        near = get_close_matches(key, list(known), n=1, cutoff=0.75)
        if near and near[0] not in connector.extra:
            yield Hit(
                f"`{key}` is ignored silently: did you mean `{near[0]}`?",
                connector.key(key),
                "error",
                f'"{near[0]}"',
            )
        elif connector.name in _CLOSED or case.engine.versions_with("extra_key", key):
            yield Hit(
                f"`{key}` is no key of {connector.name} in {case.engine} and is ignored silently",
                connector.key(key),
                "warning",
                f"remove `{key}`",
            )


def _contradictions(connector: Connector, case: Case) -> Iterator[Answer]:
    extra = connector.extra
    if "block_size" in extra and "blocks_per_chunk" in extra and case.since("0.26.0"):
        yield Hit(
            "`block_size` and `blocks_per_chunk` exclude each other",
            connector.key("block_size"),
            "error",
            "remove `block_size`",
        )
    per_rank, total = extra.get("cpu_bytes_to_use_per_rank"), extra.get("cpu_bytes_to_use")
    if isinstance(per_rank, (int, float)) and connector.name == "SimpleCPUOffloadConnector":
        beside = format_bytes(total) if isinstance(total, (int, float)) else "its default of 8 GiB"
        yield Hit(
            f"`cpu_bytes_to_use_per_rank` ({format_bytes(per_rank)} for each rank) overrides `cpu_bytes_to_use` "
            f"({beside}): "
            f"{format_counted(case.launch.ranks, 'rank')}, {format_bytes(per_rank * case.local_ranks)} on each machine",
            connector.key("cpu_bytes_to_use_per_rank"),
            "note",
            "keep one of the two",
        )
    if (
        connector.name == "OffloadingConnector"
        and extra.get("store_threshold")
        and connector.spec == "TieringOffloadingSpec"
    ):
        yield Hit(
            "`store_threshold` is refused with TieringOffloadingSpec",
            connector.key("store_threshold"),
            "error",
            "remove `store_threshold`",
        )
    policy = extra.get("eviction_policy")
    if isinstance(policy, str) and policy not in ("lru", "arc") and not extra.get("cache_policy_module_path"):
        yield Hit(
            f"`{policy[:40]}` is no eviction policy",
            connector.key("eviction_policy"),
            "error",
            '"eviction_policy": "lru" or "arc"',
        )
    size = extra.get("block_size")
    device = case.launch.whole("--block-size", default=16)
    if (
        isinstance(size, int)
        and not isinstance(size, bool)
        and connector.name == "OffloadingConnector"
        and size % device
    ):
        yield Hit(
            f"`block_size` {size} is no multiple of the device's block of {device} tokens",
            connector.key("block_size"),
            "error",
            f'"block_size": {-(-size // device) * device}',
        )
    if (
        connector.name == "OffloadingConnector"
        and extra.get("secondary_tiers")
        and connector.spec == "CPUOffloadingSpec"
        and not extra.get("spec_module_path")
    ):
        yield Hit(
            (
                "`secondary_tiers` is read by TieringOffloadingSpec only: without `spec_name` the lower tiers are "
                "ignored"
            ),
            connector.key("secondary_tiers"),
            "error",
            '"spec_name": "TieringOffloadingSpec"',
        )


RULE = Rule(
    "connector-key",
    "error",
    "A connector key that is missing, misspelt or contradicted by another.",
    "Nothing validates kv_connector_extra_config: a misspelt key is ignored and the server starts without what "
    "it asked "
    "for. OffloadingConnector needs its size; lower tiers need `spec_name: TieringOffloadingSpec`; "
    "`cpu_bytes_to_use_per_rank` overrides `cpu_bytes_to_use`.",
    '{"kv_connector":"OffloadingConnector", … {"cpu_byte_to_use":68719476736}}',
    '{"kv_connector":"OffloadingConnector", … {"cpu_bytes_to_use":68719476736}}',
    "by version, see the tables of keys",
    "vLLM v1/kv_offload; vLLM issue 51986; run on 0.32",
    check,
)
