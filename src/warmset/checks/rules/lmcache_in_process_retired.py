"""LMCache inside the engine, on versions that it no longer follows."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """The in-process connector with a vLLM that is known to have left it behind."""
    connector = case.in_process
    if not case.vllm or connector is None or case.engine.default("lmcache_in_process") != "broken":
        return
    word = "this version is not named; on vLLM 0.26 and newer" if case.assumed else f"on {case.engine}"
    yield Hit(
        (
            f"LMCache inside the engine is not maintained and does not follow the KV layout of vLLM 0.26: {word} use "
            f"its server"
        ),
        connector.key(connector.name),
        "note" if case.assumed or case.launch.origin in ("helm", "operator") else "warning",
        (
            "lmcache server --l1-size-gb 64 --eviction-policy LRU, and "
            '{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}'
        ),
        "medium",
    )


RULE = Rule(
    "lmcache-in-process-retired",
    "warning",
    "LMCache inside the engine is being retired.",
    "LMCache's maintainers announced in August 2026 that the in-process mode will be deprecated and is not actively "
    "maintained; it broke with the KV layout of vLLM 0.26. The replacement is `lmcache server` with "
    "LMCacheMPConnector.",
    '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}   # vLLM 0.28',
    '{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}',
    "vLLM 0.26 and newer",
    "LMCache issue 4614, PR 5147",
    check,
)
