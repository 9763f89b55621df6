"""A role that is missing, unknown or wrong for a tier."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule, Severity, replacing

_ROLES = ("kv_both", "kv_producer", "kv_consumer")


def check(case: Case) -> Iterator[Answer]:
    """kv_role of the written connector; a tier of one engine both stores and loads."""
    kv = case.kv
    if not case.vllm or kv.written is None or kv.by_flag:
        return
    for connector in kv.connectors:
        if connector.nested and "kv_role" not in connector.fields:
            continue
        role = connector.fields.get("kv_role")
        if role is None:
            yield Hit(
                "`kv_role` is missing: vLLM wants it beside `kv_connector`",
                connector.key("kv_connector"),
                fix='"kv_role": "kv_both"',
            )
        elif role not in _ROLES:
            yield Hit(
                f"`{str(role)[:40]}` is no role",
                connector.key("kv_role"),
                fix='"kv_role": "kv_both"',
                edit=replacing(connector.word, f'"{role}"', '"kv_both"')
                if str(role).replace("-", "_") == "kv_both"
                else None,
            )
        elif role != "kv_both" and connector.name in (
            "OffloadingConnector",
            "SimpleCPUOffloadConnector",
            "LMCacheConnectorV1",
        ):
            half = "stores and never loads" if role == "kv_producer" else "loads and never stores"
            disaggregated = connector.nested or connector.name == "LMCacheConnectorV1"
            severity: Severity = "note" if disaggregated else "warning"
            yield Hit(
                f"`{role}` {half}: a tier of one engine is `kv_both`",
                connector.key("kv_role"),
                severity,
                '"kv_role": "kv_both"',
            )


RULE = Rule(
    "connector-role",
    "error",
    "The connector's role is missing or wrong.",
    "`kv_role` is required beside `kv_connector`. kv_producer and kv_consumer are for prefill and decode on separate "
    "engines; a tier below one engine is kv_both.",
    '{"kv_connector":"OffloadingConnector"}',
    '{"kv_connector":"OffloadingConnector","kv_role":"kv_both"}',
    "all versions",
    "vLLM config/kv_transfer.py",
    check,
)
