"""Asks a running server what it is running with: its /metrics page and its list of models."""

from urllib.parse import urlsplit

from warmset.checks.inputs.parsed import Parsed
from warmset.checks.record import Flag, Server, ServerLaunch
from warmset.checks.text import NothingToCheck, Source, Word
from warmset.errors import InputError
from warmset.meters import Snapshot, scrape, window
from warmset.meters.readings import identify
from warmset.servers import engine

_MAX_PAGE_BYTES = 32 * 2**20
_TIMEOUT_SECONDS = 10.0
# label of cache_config_info → the flag that sets it
_LABELS = {
    "kv_offloading_size": "--kv-offloading-size",
    "kv_offloading_backend": "--kv-offloading-backend",
    "block_size": "--block-size",
    "cache_dtype": "--kv-cache-dtype",
    "gpu_memory_utilization": "--gpu-memory-utilization",
}


def ask(url: str) -> Parsed:
    """Read /metrics and /v1/models of one server. Raises InputError when it does not answer."""
    base = url.rstrip("/").removesuffix("/metrics").removesuffix("/v1")
    if urlsplit(base).scheme not in ("http", "https"):
        raise InputError(
            f"`{url[:100]}` is no http address", hint="give the server's address: http://localhost:8000"
        )
    page = _get(f"{base}/metrics")
    if page is None:
        raise InputError(
            f"`{base}` has no /metrics", hint="give the server itself; SGLang needs `--enable-metrics`"
        )
    return read_page(page, f"{base}/metrics", _models(base))


def read_page(page: str, name: str, models: tuple[str, ...] = ()) -> Parsed:
    """What a page of metrics says about the configuration behind it."""
    snapshot = scrape(page, source=name)
    if not snapshot.samples:
        raise NothingToCheck(
            f"nothing to check: `{name}` serves no metrics of vLLM, SGLang or LMCache",
            hint="check the port, and give the server itself; SGLang needs `--enable-metrics`",
        )
    source = Source(name, page)
    parsed = Parsed(source, "running")
    parsed.snapshot = snapshot
    parsed.launches = [_launch(source, snapshot, models)]
    return parsed


def _launch(source: Source, snapshot: Snapshot, models: tuple[str, ...]) -> ServerLaunch:
    server: Server = "sglang" if any(n.startswith("sglang:") for n in snapshot.samples) else "vllm"
    where = _word(source, "vllm:cache_config_info{")
    flags: dict[str, tuple[Flag, ...]] = {}
    rows = snapshot.samples.get("vllm:cache_config_info", ())
    for label, value in rows[0].labels if rows else ():
        found = _LABELS.get(label)
        word = _word(source, f'{label}="{value}"')
        if found is not None and value not in ("None", ""):
            flags[found] = (Flag(found, word, Word(value, word.text, word.start, word.end)),)
        elif label == "enable_prefix_caching" and value == "False":
            flags["--no-enable-prefix-caching"] = (Flag("--no-enable-prefix-caching", word, None),)
    model = models[0] if models else _label(snapshot, "model_name")
    positionals = (Word(model, where.text, where.start, where.end),) if model else ()
    version = _version(server, snapshot)
    return ServerLaunch(
        server,
        where,
        words=(where,),
        flags=flags,
        positionals=positionals,
        version=version,
        version_source="the names of its metrics" if version else "",
        origin="running",
        complete=False,
    )


def _version(server: Server, snapshot: Snapshot) -> str | None:
    """The version that `measure` reads off the same page; None where the newest known fits."""
    found = identify(window(None, snapshot))
    newest = engine(server).facts_version
    return str(found.version) if found.server == server and found.facts_version != newest else None


def _label(snapshot: Snapshot, name: str) -> str | None:
    for rows in snapshot.samples.values():
        for row in rows:
            found = dict(row.labels).get(name)
            if found:
                return found
    return None


def _word(source: Source, text: str) -> Word:
    at = max(0, source.text.find(text))
    return Word(text, source.whole(), at, at + max(1, len(text)))


def _models(base: str) -> tuple[str, ...]:
    import json

    text = _get(f"{base}/v1/models")
    try:
        listed = json.loads(text or "{}").get("data", [])
        return tuple(str(m.get("root") or m["id"]) for m in listed if isinstance(m, dict) and "id" in m)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ()


def _get(url: str) -> str | None:
    import httpx

    try:
        with httpx.stream("GET", url, timeout=_TIMEOUT_SECONDS) as response:
            if response.status_code != 200:
                return None
            parts: list[bytes] = []
            size = 0
            for part in response.iter_bytes():
                size += len(part)
                if size > _MAX_PAGE_BYTES:
                    raise InputError(
                        f"`{url}` sends more than {_MAX_PAGE_BYTES >> 20} MiB",
                        hint="give a vLLM or SGLang server",
                    )
                parts.append(part)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise InputError(
            f"`{url}` does not answer: {str(error)[:120]}", hint="check the address and port"
        ) from None
    return b"".join(parts).decode("utf-8", "replace")
