"""LMCache's client without a server, and the size that does not size it."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.units import format_bytes


def check(case: Case) -> Iterator[Answer]:
    """The backend flag by version, and the client of a separate server."""
    if not case.vllm:
        return
    kv = case.kv
    served = "lmcache-server" in case.inputs.servers
    flag = case.launch.flag("--kv-offloading-backend")
    if kv.by_flag and kv.backend == "lmcache" and flag is not None:
        if case.in_process is not None:
            if kv.size_bytes is not None:
                each = format_bytes(kv.size_bytes / case.launch.ranks)
                yield Hit(
                    f"in {case.engine} `lmcache` runs inside the engine: {format_bytes(kv.size_bytes)} are split "
                    f"over "
                    f"{case.launch.ranks} ranks, {each} each; from 0.23 on the same flags need a separate server",
                    flag.word,
                    "note",
                    since="vLLM 0.11.1 to 0.22",
                )
            return
        size = (
            f" `--kv-offloading-size {kv.size.value.value}` does not size it:"
            if kv.size is not None and kv.size.value is not None
            else ""
        )
        wanted = int(kv.size.number) if kv.size is not None and kv.size.number else 64
        tail = "the capacity is `--l1-size-gb` of the server" + (
            "" if served else ", and no server is in the input"
        )
        yield Hit(
            f"in {case.engine} the backend `lmcache` is a client of a running `lmcache server`.{size} {tail}",
            flag.word,
            "note" if served else "warning",
            f"lmcache server --l1-size-gb {wanted} --eviction-policy LRU",
        )
    elif case.client is not None and not served:
        host = case.client.extra.get("lmcache.mp.host")
        elsewhere = isinstance(host, str) and "localhost" not in host and "127.0.0.1" not in host
        if (
            not elsewhere
            and not case.client.extra.get("lmcache.mp.autostart")
            and not case.client.extra.get("lmcache.mp.server_urls")
        ):
            yield Hit(
                "LMCacheMPConnector is a client of a running `lmcache server`, and none is in the input",
                case.client.key(case.client.name),
                "note",
                "lmcache server --l1-size-gb 64 --eviction-policy LRU",
            )


RULE = Rule(
    "lmcache-server-needed",
    "warning",
    "LMCache's client needs a running server, which the size flag does not size.",
    "`--kv-offloading-backend lmcache` meant LMCache inside the engine up to vLLM 0.22, with the size split over the "
    "ranks. Since 0.23 it is LMCacheMPConnector, the client of a separate `lmcache server` at "
    "tcp://localhost:5555; the "
    "size is ignored there and `--l1-size-gb` of the server counts.",
    "vllm serve M --kv-offloading-backend lmcache --kv-offloading-size 100",
    (
        "lmcache server --l1-size-gb 100 --eviction-policy LRU & vllm serve M --kv-offloading-backend lmcache "
        "--kv-offloading-size 1"
    ),
    "vLLM 0.23 and newer",
    "vLLM PRs 42865, 44625; Ray PR 65569",
    check,
)
