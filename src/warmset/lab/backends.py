"""What the lab's server is told for each backend."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warmset.errors import UnknownName

BACKENDS = ("native", "native+disk", "native+warmset", "lmcache", "lmcache-inprocess")
_PAGE = 4096


@dataclass(frozen=True, slots=True)
class HostTier:
    """A host tier in vLLM's units.

    Attributes:
        blocks: device blocks that it holds.
        bytes_per_block: KV bytes of one block over all layers.
        blocks_per_chunk: blocks that are stored together.
        block_tokens: tokens of a block.
    """

    blocks: int
    bytes_per_block: int
    blocks_per_chunk: int = 1
    block_tokens: int = 32

    @property
    def chunks(self) -> int:
        """Whole chunks that it holds."""
        return self.blocks // self.blocks_per_chunk

    @property
    def bytes(self) -> int:
        """Memory that vLLM takes for that many chunks; it pads a chunk to whole pages."""
        chunk = self.bytes_per_block * self.blocks_per_chunk
        return self.chunks * (-(-chunk // _PAGE) * _PAGE)


def transfer_config(
    backend: str, tier: HostTier, *, disk: Path | None = None, lmcache_port: int | None = None
) -> Mapping[str, Any]:
    """The value of `--kv-transfer-config`."""
    if backend == "lmcache":
        return {
            "kv_connector": "LMCacheMPConnector",
            "kv_connector_module_path": "lmcache.integration.vllm.lmcache_mp_connector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "lmcache.mp.host": "tcp://localhost",
                "lmcache.mp.port": lmcache_port,
            },
        }
    if backend == "lmcache-inprocess":
        return {
            "kv_connector": "LMCacheConnectorV1",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "lmcache.local_cpu": True,
                # LMCache counts in GiB.
                "lmcache.max_local_cpu_size": tier.bytes / 2**30,
                "lmcache.chunk_size": tier.block_tokens * tier.blocks_per_chunk,
                # Where it is inert, every request waits this long for an answer, 3 s unless told otherwise.
                "lmcache.lookup_timeout_ms": 300,
            },
        }
    if backend not in BACKENDS:
        raise UnknownName("backend", backend, BACKENDS, hint=f"use {', '.join(BACKENDS)}")
    extra: dict[str, Any] = {
        "spec_name": "AnyDeviceOffloadingSpec",
        "spec_module_path": "warmset.vllm.offloading",
        "cpu_bytes_to_use": tier.bytes,
        "blocks_per_chunk": tier.blocks_per_chunk,
    }
    if backend == "native+disk":
        extra["secondary_tiers"] = [{"type": "fs", "root_dir": str(disk)}]
    elif backend == "native+warmset":
        extra["secondary_tiers"] = [
            {"type": "WarmsetTier", "module_path": "warmset.vllm.tier", "store": f"file://{disk}"}
        ]
    return {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
