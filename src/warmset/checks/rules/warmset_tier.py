"""Tables of the warmset tier: keys, store, bound, and a version that can import it."""

from collections.abc import Iterator
from typing import Any

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.kv import Connector
from warmset.errors import InputError
from warmset.tiers.settings import SERVER_KEYS, parse
from warmset.tiers.url import check_url

_MODULE = "warmset.vllm.tier"


def check(case: Case) -> Iterator[Answer]:
    """Every table in secondary_tiers that names the tier or its module."""
    native = case.native
    for tier in native.tiers if native is not None else ():
        if tier.get("type") == "WarmsetTier" or tier.get("module_path") == _MODULE:
            assert native is not None
            yield from _table(case, native, tier)


def _table(case: Case, native: Connector, tier: dict[str, Any]) -> Iterator[Answer]:
    at = native.word.find('"WarmsetTier"') if tier.get("type") == "WarmsetTier" else native.key("module_path")
    keys = case.engine.extra_config_keys("OffloadingConnector", "TieringOffloadingSpec", "fs")
    if "module_path" not in keys:
        yield Hit(
            f"{case.engine} has no tiers from outside: the warmset tier needs vLLM 0.28 or newer",
            at,
            fix="vLLM 0.28 or newer",
        )
        return
    if tier.get("module_path") != _MODULE:
        yield Hit(f"the tier `WarmsetTier` lives in `{_MODULE}`", at, fix=f'"module_path": "{_MODULE}"')
    if tier.get("type") != "WarmsetTier":
        yield Hit(f"`{_MODULE}` has the one tier `WarmsetTier`", at, fix='"type": "WarmsetTier"')
    try:
        settings = parse(tier)
        check_url(settings.store)
    except InputError as error:
        wrong = next((key for key in tier if key not in SERVER_KEYS and f"`{key}`" in error.message), None)
        yield Hit(
            f"{error.message}, which stops the start", native.key(wrong) if wrong else at, fix=error.hint
        )
        return
    if settings.capacity_bytes is None:
        yield Hit(
            f"nothing bounds the store `{settings.store[:80]}`: it grows until it is full",
            native.key("store"),
            "warning",
            '"capacity_bytes": BYTES',
        )


RULE = Rule(
    "warmset-tier",
    "error",
    "A warmset tier that stops the start, or that nothing bounds.",
    "The table is checked when the engine starts: an unknown key, a missing store or an address that is no store "
    "stops it. Without `capacity_bytes` blocks are only deleted by age, or when the store is full.",
    '"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"/kv"}]',
    '"secondary_tiers":[{"type":"WarmsetTier","module_path":"warmset.vllm.tier","store":"file:///kv",'
    '"capacity_bytes":2199023255552}]',
    "vLLM 0.28 and newer",
    "vLLM v1/kv_offload/tiering/factory.py; warmset.tiers.settings",
    check,
)
