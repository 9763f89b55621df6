"""Fields of --kv-transfer-config that the version does not know."""

from collections.abc import Iterator
from difflib import get_close_matches

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity
from warmset.checks.kv import Connector


def check(case: Case) -> Iterator[Answer]:
    """Top-level keys, of the configuration and of the children of a MultiConnector."""
    if not case.vllm or case.kv.written is None:
        return
    fields = case.engine.config_fields("KVTransferConfig")
    refused = case.engine.default("config_unknown_fields") == "error"
    for connector in [case.kv.written, *(c for c in case.kv.connectors if c.nested)]:
        for key in connector.fields:
            if key in fields:
                continue
            yield _hit(case, connector, key, refused, list(fields))


def _hit(case: Case, connector: Connector, key: str, refused: bool, fields: list[str]) -> Hit:
    gone = case.engine.removed(key)
    severity: Severity = "error" if refused else "warning"
    effect = "the server does not start" if refused else "it is dropped silently"
    if gone is not None:
        if case.assumed:
            severity = "warning"
        return Hit(
            f"`{key}` was removed after {gone.last} (it had no effect in the V1 engine): {effect}",
            connector.key(key),
            severity,
            f"remove `{key}`",
        )
    known = case.engine.versions_with("config_field", key)
    if known:
        return Hit(
            f"`{key}` came with {known[0]}: in {case.engine} {effect}",
            connector.key(key),
            severity,
            f"remove `{key}`",
        )
    extra = case.engine.extra_config_keys(connector.name)
    if key in extra or key.startswith("lmcache."):
        return Hit(
            f"`{key}` belongs into `kv_connector_extra_config`, not beside it: {effect}",
            connector.key(key),
            severity,
            f'"kv_connector_extra_config": {{"{key}": …}}',
        )
    near = get_close_matches(key, fields, n=1, cutoff=0.7)
    return Hit(
        f"`{key}` is no field of --kv-transfer-config in {case.engine}: {effect}",
        connector.key(key),
        severity,
        f'"{near[0]}"' if near else f"remove `{key}`",
    )


RULE = Rule(
    "connector-field",
    "error",
    "A field of the connector configuration that the version refuses or ignores.",
    "vLLM refuses unknown fields of --kv-transfer-config since 0.16; before, it dropped them silently. "
    "kv_buffer_size, "
    "kv_rank, kv_parallel_size and kv_ip stand in many guides and were removed in 0.32. The connector's own keys "
    "belong "
    "into kv_connector_extra_config.",
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both","kv_parallel_size":1}   # vLLM 0.32',
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}',
    "vLLM 0.16 and newer refuse, 0.32 removed four fields",
    "vLLM config/kv_transfer.py, run on 0.32",
    check,
)
