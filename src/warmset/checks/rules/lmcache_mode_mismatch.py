"""A connector of one LMCache mode with the server of the other."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule


def check(case: Case) -> Iterator[Answer]:
    """In-process connector with `lmcache server`, client with `lmcache_server`, and settings of the other mode."""
    if not case.vllm:
        return
    servers = case.inputs.servers
    remote = case.lmcache.remote
    connector = case.in_process
    if connector is not None and "lmcache-server" in servers and "lmcache-store" not in servers:
        how = f" and `{remote.value[:60]}`" if remote is not None else ""
        yield Hit(
            (
                f"`{connector.name}` keeps its cache inside the engine{how}; `lmcache server` speaks another "
                f"protocol and drops it"
            ),
            connector.key(connector.name),
            fix='"kv_connector": "LMCacheMPConnector", without LMCACHE_REMOTE_URL',
        )
    client = case.client
    if client is not None and "lmcache-store" in servers and "lmcache-server" not in servers:
        yield Hit(
            "`LMCacheMPConnector` speaks to `lmcache server`; `lmcache_server` is the old remote store (lm://)",
            client.key(client.name),
            fix="lmcache server --l1-size-gb 64 --eviction-policy LRU",
        )
    if client is not None and remote is not None and remote.via == "env" and "lmcache-store" not in servers:
        yield Hit(
            "LMCACHE_REMOTE_URL is read by LMCache inside the engine; LMCacheMPConnector goes by `lmcache.mp.host`",
            remote.at,
            "warning",
            '"lmcache.mp.host": "tcp://HOST", "lmcache.mp.port": 5555',
        )


RULE = Rule(
    "lmcache-mode-mismatch",
    "error",
    "The connector and the LMCache server are of different modes.",
    "LMCache has two modes with two servers of nearly the same name. `lmcache server` serves LMCacheMPConnector "
    "on the "
    "same machine. `lmcache_server HOST PORT` is a remote store (lm://) for LMCacheConnectorV1. In a mixed pair the "
    "connection is dropped after a while and nothing ever hits.",
    'LMCACHE_REMOTE_URL=lm://h:5555 with {"kv_connector":"LMCacheConnectorV1"} and `lmcache server`',
    '{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"} and `lmcache server`',
    "LMCache 0.4 and newer",
    "LMCache issue 4213",
    check,
)
