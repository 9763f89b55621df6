"""What is known about the tier itself: the connector, its capacity, and what a token costs in it."""

import math
from dataclasses import dataclass

from warmset.meters.log import LogFacts
from warmset.meters.readings import Readings
from warmset.meters.series import instance_of

# Connector → a prefix that only it exports. Transfer connectors move KV between servers: their hits are no tier's.
_BY_PREFIX = (
    ("OffloadingConnector", "vllm:kv_offload"),
    ("SimpleCPUOffloadConnector", "vllm:simple_kv_offload"),
    ("LMCacheConnectorV1", "lmcache:"),
    ("LMCacheMPConnector", "lmcache_mp"),
    ("LMCacheMPConnector", "vllm:lmcache_mp"),
    ("MooncakeStoreConnector", "vllm:mooncake_store"),
    ("HF3FSKVConnector", "vllm:hf3fs"),
    ("HiSparseConnector", "vllm:hisparse"),
)
_TRANSFER_PREFIXES = ("vllm:nixl_", "vllm:mooncake_xfer", "vllm:mooncake_bytes_transferred")
# Measured: a load of these happens before the forward pass, inside what the server calls prefill.
_LOADS_INSIDE_PREFILL = frozenset({"LMCacheConnectorV1"})
_HICACHE_PREFIXES = (
    "sglang:hicache_",
    "sglang:load_back_",
    "sglang:backuped_tokens",
    "sglang:prefetched_tokens",
)
_LMCACHE_CHUNK_TOKENS = 256.0
_ROUGH = "stored bytes over computed tokens (rough)"


@dataclass(frozen=True, slots=True)
class Tier:
    """The tier behind a connector.

    Attributes:
        present: whether any sign of a tier was found.
        connector: its name where the metrics tell; `unnamed connector` where only its hits show.
        transfers_between_servers: a P/D connector is at work, so external hits need not be a tier's.
        capacity_tokens, capacity_bytes: per engine, None where unknown; `capacity_source` says from where.
        device_pool_tokens: tokens that the device pool of one engine holds.
        bytes_per_token: what a token takes in the tier (all ranks of one engine); `bytes_per_token_source`
        says from where. chunk_tokens: the least prompt that can be stored.
        stored_tokens: tokens stored in the window, where that can be told from bytes or chunks.
        lifetime_computed_tokens: tokens computed since the server started, over all engines.
        engines: engines in the window.
        prefix_caching: whether the device's prefix cache is on; None where unknown.
        kv_dtype: the KV cache's data type as configured, empty where unknown.
        speculative: speculative decoding is at work.
        stores_skipped: stores that a threshold held back.
        lifetime_stored_bytes: bytes stored since the server started, over all engines; None where not exported.
        loads_inside_prefill: see causal accounting.
        log_faults: fault signatures that the server's log shows.
        notes: for the reader.
        others: further connectors that export something of their own, beside `connector`.
    """

    present: bool
    connector: str | None
    transfers_between_servers: bool
    capacity_tokens: float | None
    capacity_bytes: float | None
    capacity_source: str | None
    device_pool_tokens: float | None
    bytes_per_token: float | None
    bytes_per_token_source: str | None
    chunk_tokens: float | None
    stored_tokens: float | None
    lifetime_computed_tokens: float | None
    engines: int
    prefix_caching: bool | None
    kv_dtype: str
    speculative: bool
    stores_skipped: float
    lifetime_stored_bytes: float | None
    loads_inside_prefill: bool
    log_faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def cost_is_rough(self) -> bool:
        """A token's cost supposes that every computed token was stored once."""
        return self.bytes_per_token_source == _ROUGH

    @property
    def capacity_is_rough(self) -> bool:
        """The capacity in tokens rests on a token's cost that is itself rough."""
        tokens, size, cost = self.capacity_tokens, self.capacity_bytes, self.bytes_per_token
        if tokens is None or size is None or cost is None or not self.cost_is_rough:
            return False
        return math.isclose(tokens, size / cost)


def find_tier(
    r: Readings,
    *,
    tier_bytes: float | None,
    bytes_per_token: float | None,
    chunk_tokens: float | None,
    external_hit_tokens: float | None,
    computed_tokens: float | None,
    log: LogFacts | None,
    sources: dict[str, str],
) -> Tier:
    """Everything that the metrics, the options and the log say about the tier."""
    facts = log or LogFacts()
    config = r.information("cache_config_info")
    engines = _engines(config, r)
    block = _number(config, "effective_attention_block_size") or _number(config, "block_size")
    connector = _connector(r, config)
    present = connector is not None or facts.connector is not None
    connector = facts.connector or connector
    chunk = chunk_tokens or facts.chunk_tokens or _chunk(r, connector, block)
    stored_bytes, stored_chunks = _stored(r)
    per_token, per_token_source = bytes_per_token, "--bytes-per-token" if bytes_per_token else None
    if per_token is None:
        per_token, per_token_source = _bytes_per_token(
            r, external_hit_tokens, stored_bytes, stored_chunks, chunk
        )
    pool = _device_pool(r, config, block, facts)
    stored = None
    if stored_chunks is not None and chunk:
        stored = stored_chunks * chunk
        sources["stored_tokens"] = "vllm:kv_offload_cpu_allocation_size_sum × chunk"
    elif stored_bytes is not None and per_token:
        stored = stored_bytes / per_token
    if stored is None:
        direct = (
            r.counter("store_tokens")
            or r.counter("store_tokens", "lmcache")
            or r.counter("tiering_write_tokens")
        )
        if direct is not None:
            stored = direct.value
            sources["stored_tokens"] = direct.metric
    if per_token is None and stored_bytes and computed_tokens:
        # What was stored before, or refused, makes it smaller, and so the tier look larger; what was stored again does
        # the opposite, and only a tier that is too small stores again.
        per_token, per_token_source = stored_bytes / computed_tokens, _ROUGH
    capacity_tokens, capacity_bytes, source = _capacity(r, tier_bytes, facts, per_token, chunk)
    ever = r.lifetime("store_bytes") or r.lifetime("transfer_bytes", transfer_type="GPU_to_CPU")
    skipped = r.counter("stores_skipped")
    return Tier(
        present=present or tier_bytes is not None,
        connector=connector,
        transfers_between_servers=transfers(r),
        capacity_tokens=capacity_tokens,
        capacity_bytes=capacity_bytes,
        capacity_source=source,
        device_pool_tokens=pool,
        bytes_per_token=per_token,
        bytes_per_token_source=per_token_source,
        chunk_tokens=chunk,
        stored_tokens=stored,
        lifetime_computed_tokens=_lifetime_computed(r),
        engines=engines,
        prefix_caching=_flag(config, "enable_prefix_caching"),
        kv_dtype=next((row["cache_dtype"] for row in config if row.get("cache_dtype")), ""),
        speculative=r.moved("vllm:spec_decode_num_draft"),
        stores_skipped=skipped.value if skipped else 0.0,
        lifetime_stored_bytes=ever.value if ever else None,
        loads_inside_prefill=connector in _LOADS_INSIDE_PREFILL,
        log_faults=facts.faults,
        notes=_notes(r, connector),
        others=tuple({name: None for name, prefix in _BY_PREFIX if r.exported(prefix) and name != connector}),
    )


def _connector(r: Readings, config: list[dict[str, str]]) -> str | None:
    for name, prefix in _BY_PREFIX:
        if r.exported(prefix):
            return name
    if r.engine.server == "sglang":
        split = r.counter_by("prompt_tokens_cached_by_source", "cache_source")
        return "HiCache" if hicache_shows(r) or split.keys() & {"host", "storage"} else None
    if any(row.get("kv_offloading_size", "None") not in ("None", "", "0", "0.0") for row in config):
        backend = next((row.get("kv_offloading_backend") for row in config), None)
        return "LMCacheConnectorV1" if backend == "lmcache" else "OffloadingConnector"
    looked_up = r.lifetime("external_query_tokens")
    hit = r.lifetime("external_hit_tokens")
    if (looked_up is not None and looked_up.value > 0) or (hit is not None and hit.value > 0):
        return "unnamed connector"
    return None


def transfers(r: Readings) -> bool:
    """Whether KV came from other servers in the window."""
    return any(r.moved(prefix) for prefix in _TRANSFER_PREFIXES)


def hicache_shows(r: Readings) -> bool:
    """Whether anything moved, or has a size, that only HiCache has; some versions show zeros without it."""
    return any(
        row.value > 0
        for name, rows in r.window.ends.items()
        if name.startswith(_HICACHE_PREFIXES)
        for row in rows
    )


def _capacity(
    r: Readings, tier_bytes: float | None, facts: LogFacts, per_token: float | None, chunk: float | None
) -> tuple[float | None, float | None, str | None]:
    if tier_bytes is not None:
        return (tier_bytes / per_token if per_token else None), tier_bytes, "--tier"
    info = r.information("kv_offload_config_info")
    tokens, size = _number(info, "cpu_kv_cache_size_tokens"), _number(info, "cpu_kv_cache_size_bytes")
    if tokens or size:
        return (
            tokens or (size / per_token if size and per_token else None),
            size,
            "vllm:kv_offload_config_info",
        )
    gauge = r.gauges("host_tier_capacity_tokens")
    if gauge is not None and max(gauge[0], default=0.0) > 0:
        return max(gauge[0]), None, gauge[1]
    if facts.tier_chunks is not None and chunk:
        return facts.tier_chunks * chunk, facts.tier_bytes, "the server's log"
    if facts.tier_bytes is not None:
        return (facts.tier_bytes / per_token if per_token else None), facts.tier_bytes, "the server's log"
    return None, None, None


def _device_pool(
    r: Readings, config: list[dict[str, str]], block: float | None, facts: LogFacts
) -> float | None:
    """Tokens of one engine's device pool; `num_gpu_blocks` is summed over the data-parallel engines of a server, tokens
    are not.
    """
    tokens = _number(config, "kv_cache_size_tokens")
    if tokens:
        return tokens
    blocks = _number(config, "num_gpu_blocks")
    if blocks and block:
        beside = {row.get("engine") for row in config if row.get("instance") == config[0].get("instance")}
        return blocks * block / max(1, len(beside))
    if r.engine.server == "sglang":
        rows = r.window.gauges("sglang:max_total_num_tokens")
        if rows:
            return max(rows)
    return facts.device_pool_tokens


def _bytes_per_token(
    r: Readings,
    hits: float | None,
    stored_bytes: float | None,
    stored_chunks: float | None,
    chunk: float | None,
) -> tuple[float | None, str | None]:
    """Measured: bytes over tokens of the loads, or of the stored chunks."""
    loaded = r.counter("load_bytes") or r.counter_by("transfer_bytes", "transfer_type").get("CPU_to_GPU")
    if loaded is not None and loaded.value > 0 and hits:
        return loaded.value / hits, f"{loaded.metric} over external hit tokens"
    if stored_bytes and stored_chunks and chunk:
        return stored_bytes / (stored_chunks * chunk), "stored bytes over stored chunks"
    return None, None


def _stored(r: Readings) -> tuple[float | None, float | None]:
    stored = r.counter("store_bytes") or r.counter_by("transfer_bytes", "transfer_type").get("GPU_to_CPU")
    chunks = r.counter("host_tier_allocation_size")
    return (stored.value if stored else None), (chunks.value if chunks and chunks.value > 0 else None)


def _chunk(r: Readings, connector: str | None, block: float | None) -> float | None:
    """The tier's unit in tokens: LMCache's chunk rounded up to whole blocks, one block elsewhere unless told."""
    per_chunk = _number(r.information("kv_offload_config_info"), "cpu_blocks_per_chunk") or 1.0
    if connector is not None and connector.startswith("LMCache"):
        return -(-_LMCACHE_CHUNK_TOKENS // block) * block if block else _LMCACHE_CHUNK_TOKENS
    if block:
        return block * per_chunk
    return None


def _lifetime_computed(r: Readings) -> float | None:
    computed = r.lifetime("prompt_tokens_by_source", source="local_compute") or r.lifetime(
        "prefill_computed_tokens"
    )
    if computed is not None and computed.value > 0:
        return computed.value
    prompt, hits, external = (
        r.lifetime(k) for k in ("prompt_tokens", "device_hit_tokens", "external_hit_tokens")
    )
    if prompt is None:
        return None
    return max(0.0, prompt.value - (hits.value if hits else 0.0) - (external.value if external else 0.0))


def _engines(config: list[dict[str, str]], r: Readings) -> int:
    names = {(row.get("instance"), row.get("engine")) for row in config}
    return max(1, len(names)) if config else max(1, len(r.window.instances))


def _notes(r: Readings, connector: str | None) -> tuple[str, ...]:
    return (*_partly(r, connector), *_remarks(r, connector))


def _partly(r: Readings, connector: str | None) -> tuple[str, ...]:
    """A fleet in which only some servers have the tier: its meters are diluted by the others."""
    prefixes = tuple(prefix for name, prefix in _BY_PREFIX if name == connector)
    if not prefixes or len(r.window.instances) < 2:
        return ()
    having = {
        instance_of(row.labels)
        for name, rows in r.window.ends.items()
        if name.startswith(prefixes)
        for row in rows
    }
    if not having or len(having) >= len(r.window.instances):
        return ()
    return (
        f"{len(having)} of {len(r.window.instances)} servers have {connector}: give only those, or pick one with "
        f"`--match instance={min(having)}`",
    )


def _remarks(r: Readings, connector: str | None) -> tuple[str, ...]:
    if connector is not None and _flag(r.information("cache_config_info"), "enable_prefix_caching") is False:
        return (
            "the device's prefix cache is off: what the tier supplies, the device could keep at no cost; start without "
            "`--no-enable-prefix-caching`",
        )
    if connector == "unnamed connector":
        return (
            "only the connector's hits are exported; for LMCache's own metrics set PROMETHEUS_MULTIPROC_DIR before "
            "`vllm serve`, or LMCACHE_INTERNAL_API_SERVER_ENABLED=True and scrape port 6999 and up",
        )
    vllm_hits = r.counter("device_hit_tokens", "vllm")
    own = r.counter("device_hit_tokens", "lmcache")
    if own is not None and own.value == 0 and vllm_hits is not None and vllm_hits.value > 0:
        return (
            f"{own.metric} stays at 0 while {vllm_hits.metric} grows: the former is unreliable and not used",
        )
    return ()


def _number(rows: list[dict[str, str]], label: str) -> float | None:
    for row in rows:
        try:
            value = float(row.get(label, ""))
        except ValueError:
            continue
        if 0 < value < 1e18:
            return value
    return None


def _flag(rows: list[dict[str, str]], label: str) -> bool | None:
    values = {row[label] for row in rows if label in row}
    return None if not values else values != {"False"}
