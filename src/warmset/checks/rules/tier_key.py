"""Tables of lower tiers: what is missing, unknown or contradictory."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.kv import Connector
from warmset.servers import KeyFact

_FREE = ("p2p",)


def check(case: Case) -> Iterator[Answer]:
    """Every table in secondary_tiers whose type the version knows."""
    native = case.native
    if native is None:
        return
    listed = native.extra.get("secondary_tiers")
    if listed is not None and not (isinstance(listed, list) and all(isinstance(t, dict) for t in listed)):
        yield Hit(
            "`secondary_tiers` must be a list of tables",
            native.key("secondary_tiers"),
            fix='"secondary_tiers": [{"type": "fs", "root_dir": "/kv"}]',
        )
        return
    for tier in native.tiers:
        name = tier.get("type")
        keys = (
            case.engine.extra_config_keys("OffloadingConnector", tier=name) if isinstance(name, str) else {}
        )
        if not keys or tier.get("module_path") or not isinstance(name, str):
            continue
        yield from _table(native, name, tier, keys, "")
        store = tier.get("store_config")
        if isinstance(store, dict):
            nested = {
                k.removeprefix("store_config."): f for k, f in keys.items() if k.startswith("store_config.")
            }
            yield from _table(native, name, store, nested, " in store_config")
            yield from _endpoint(native, store)


def _table(
    native: Connector, name: str, tier: Mapping[str, Any], keys: Mapping[str, KeyFact], where: str
) -> Iterator[Answer]:
    top = {k: f for k, f in keys.items() if "." not in k}
    for key, fact in top.items():
        if fact.required and key not in tier:
            hint = {"root_dir": '"root_dir": "/kv"'}.get(key, f'"{key}": …')
            at = native.word.find(f'"{name}"') if not where else native.key("store_config")
            yield Hit(f"the tier `{name}` lacks `{key}`{where}", at, fix=hint)
    if name in _FREE:
        return
    for key in tier:
        if key not in top:
            near = get_close_matches(key, list(top), n=1, cutoff=0.6)
            offer = f": did you mean `{near[0]}`?" if near else ""
            yield Hit(
                f"the tier `{name}` has no `{key}`{where}, and an unknown key stops the start{offer}",
                native.key(key),
                fix=f'"{near[0]}"' if near else f"remove `{key}`",
            )


def _endpoint(native: Connector, store: Mapping[str, Any]) -> Iterator[Answer]:
    endpoint, scheme = store.get("endpoint_override"), store.get("scheme")
    if not isinstance(endpoint, str):
        return
    written = endpoint.split("://", 1)[0] if "://" in endpoint else None
    if written == "https" and scheme in (None, "http"):
        yield Hit(
            "the endpoint is https and `scheme` is http" + (" by default" if scheme is None else ""),
            native.key("endpoint_override"),
            "warning",
            '"scheme": "https"',
        )
    elif written == "http" and scheme is None:
        yield Hit(
            "the endpoint is http and `scheme` is not set: say it, the default may change",
            native.key("endpoint_override"),
            "warning",
            '"scheme": "http"',
        )
    elif written is not None and scheme is not None and written != scheme:
        yield Hit(
            f"the endpoint is {written} and `scheme` is {str(scheme)[:10]}",
            native.key("scheme"),
            "warning",
            f'"scheme": "{written}"',
        )


RULE = Rule(
    "tier-key",
    "error",
    "A lower tier's table lacks a key or has an unknown one.",
    "Tables in secondary_tiers are arguments of a constructor: unlike the connector's own keys, a missing or "
    "unknown one "
    "stops the start. The file tier needs root_dir; the object tier needs store_config with bucket and "
    "endpoint_override, and access keys up to 0.25.",
    '"secondary_tiers":[{"type":"fs"}]',
    '"secondary_tiers":[{"type":"fs","root_dir":"/kv"}]',
    "vLLM 0.22 and newer",
    "vLLM v1/kv_offload/tiering",
    check,
)
