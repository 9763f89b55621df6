"""Models with several KV-cache groups and connectors that do not take them."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.checks.kv import Connector
from warmset.checks.text import Word

_LOG = re.compile(r"failed to convert the KV cache specs to one unified type")
_OFF = re.compile(r"Turning off hybrid kv cache manager because", re.IGNORECASE)


def check(case: Case) -> Iterator[Answer]:
    """The connector's support for the hybrid manager, against the model by name."""
    if not case.vllm:
        return
    log = case.log
    if log is not None and (found := log.search(_LOG)) is not None:
        yield Hit(
            (
                "the model has recurrent layers and the hybrid KV-cache manager is off: the server cannot start with "
                "this connector"
            ),
            found[1],
            fix=(
                "a connector that supports it (OffloadingConnector from 0.22), without "
                "--disable-hybrid-kv-cache-manager"
            ),
        )
    if (
        not case.model.hybrid
        or not case.kv.connectors
        or case.launch.enabled("disable-hybrid-kv-cache-manager") is True
    ):
        return
    forced = case.launch.flag("--no-disable-hybrid-kv-cache-manager") is not None
    unsupported = next((c for c in case.kv.offloading() if _supports(case, c.name) is False), None)
    if unsupported is not None and not _own_class(case, unsupported):
        yield _unsupported(case, unsupported.name, unsupported.word)
        return
    mode = case.engine.default("hybrid_manager_with_connector")
    connector = next(case.kv.offloading(), None)
    if connector is None or mode == "by_connector" or forced:
        return
    grave = case.model.kind == "state" and not case.assumed
    can_force = mode == "off_unless_forced"
    severity: Severity = "error" if grave and not can_force else "warning"
    effect = (
        "the server does not start with recurrent layers"
        if case.model.kind == "state"
        else "every layer is kept as full attention, and a long request needs several times the memory"
    )
    at = connector.word if case.kv.by_flag else connector.key(connector.name)
    yield Hit(
        f"{case.engine} turns the hybrid KV-cache manager off as soon as a connector is set: {effect}",
        at,
        severity,
        "--no-disable-hybrid-kv-cache-manager" if can_force else "vLLM 0.22 or newer",
        "medium",
    )


def _supports(case: Case, name: str) -> bool | None:
    fact = case.engine.connector(name)
    if name in ("LMCacheConnectorV1", "LMCacheMPConnector", "LMCacheConnector"):
        return False
    return (
        None
        if fact is None or case.engine.default("hybrid_manager_with_connector") != "by_connector"
        else fact.hybrid
    )


def _own_class(case: Case, connector: Connector) -> bool:
    """Whether another module than vLLM's provides the connector, and may support the hybrid manager."""
    module = connector.fields.get("kv_connector_module_path")
    if not module:
        return False
    if not str(module).startswith("lmcache.") or not case.lmcache_known:
        return True
    fact = case.lmcache_engine.connector(connector.name)
    return fact is not None and bool(fact.hybrid)


def _unsupported(case: Case, name: str, word: Word) -> Hit:
    in_tree_client = name == "LMCacheMPConnector"
    severity: Severity = (
        "error" if case.model.kind in ("state", "compressed") and not in_tree_client else "warning"
    )
    effect = (
        "the server does not start"
        if severity == "error"
        else "the hybrid manager is off, and windows are kept as full attention"
    )
    fix = (
        '"kv_connector_module_path": "lmcache.integration.vllm.lmcache_mp_connector" (LMCache 0.4.7 or newer)'
        if in_tree_client
        else (
            '"kv_connector": "OffloadingConnector" (vLLM 0.22 or newer), or LMCacheMPConnector with LMCache\'s '
            "own class"
        )
    )
    return Hit(
        f"`{name}` does not support models with several KV-cache groups such as `{case.model.name[-60:]}`: {effect}",
        word.find(name),
        severity,
        fix,
    )


RULE = Rule(
    "hybrid-connector",
    "error",
    "A hybrid model with a connector that cannot take it.",
    "Models that mix attention with recurrent layers or windows need vLLM's hybrid KV-cache manager. LMCache "
    "inside the "
    "engine does not support it. Up to 0.21 vLLM turned the manager off whenever a connector was set, unless "
    "`--no-disable-hybrid-kv-cache-manager` forced it on; since 0.22 the connector decides.",
    'vllm serve Qwen3.6-27B --kv-transfer-config \'{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}\'',
    "vllm serve Qwen3.6-27B --kv-offloading-size 64   # vLLM 0.22 or newer",
    "all versions, other rules before 0.22",
    "vLLM issues 41830, 42911; LMCache issues 3163, PR 1436",
    check,
)
