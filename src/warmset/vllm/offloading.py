"""An offloading spec for vLLM that works on any device, lower tiers included.

vLLM's scheduler, host tier, lower tiers and metrics do not depend on the device; only its worker does,
because it copies with CUDA or XPU streams. On those devices this spec changes nothing. Elsewhere it puts
a worker in place that copies through host memory.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
      "kv_connector_extra_config": {"spec_name": "AnyDeviceOffloadingSpec",
      "spec_module_path": "warmset.vllm.offloading", "cpu_bytes_to_use": 1073741824}}'

It takes every key of vLLM's `TieringOffloadingSpec`, such as `secondary_tiers`.
"""

import contextlib
import os
from typing import Any

from warmset.vllm.versions import require_vllm

require_vllm(
    "0.28",
    "the host tier is mapped without a check that shared memory has room, and a server that runs out dies "
    "with SIGBUS",
)

from vllm.platforms import current_platform  # noqa: E402
from vllm.v1.kv_offload.base import CanonicalKVCaches, OffloadingManager, OffloadingWorker  # noqa: E402
from vllm.v1.kv_offload.config import OffloadingConfig  # noqa: E402
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion  # noqa: E402
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec  # noqa: E402

from warmset.vllm.host_worker import HostCopyWorker  # noqa: E402


class AnyDeviceOffloadingSpec(TieringOffloadingSpec):  # type: ignore[misc]
    """vLLM's tiering spec, with a worker for devices that vLLM's own worker refuses."""

    _worker: OffloadingWorker | None

    def __init__(self, config: OffloadingConfig) -> None:
        _check_size(config.extra_config.get("cpu_bytes_to_use"))
        super().__init__(config)
        if self._chunks < 1:
            raise ValueError(
                f"cpu_bytes_to_use `{self.extra_config['cpu_bytes_to_use']}` is less than one chunk of "
                f"{self.kv_bytes_per_chunk} bytes ({self.blocks_per_chunk} blocks over all ranks): "
                "give the host tier more memory"
            )
        if not _has_own_worker() and self.extra_config.get("canonical_layout"):
            raise ValueError(
                "canonical_layout is not supported on this device: remove it from kv_connector_extra_config"
            )

    @property
    def _chunks(self) -> int:
        # Called `num_blocks` before 0.29.
        return int(self.num_chunks if hasattr(self, "num_chunks") else self.num_blocks)

    def get_manager(self) -> OffloadingManager:
        """vLLM's tiering manager, on the scheduler's side of the shared region."""
        manager = super().get_manager()
        if not _has_own_worker() and self._scheduler_mmap is not None:
            self._forget_name(self._scheduler_mmap)
        return manager

    def get_worker(self, kv_caches: CanonicalKVCaches) -> OffloadingWorker:
        """vLLM's own worker on CUDA, ROCm and XPU; one that copies through host memory elsewhere."""
        if _has_own_worker():
            return super().get_worker(kv_caches)
        if self._worker is None:
            self._worker = self._host_worker(kv_caches)
        return self._worker

    def _host_worker(self, kv_caches: CanonicalKVCaches) -> HostCopyWorker:
        # By position: the parameters changed their names between versions, not their meaning.
        region = _Region(
            self.config.engine_id,
            self._chunks,
            0 if self.replicated_layout else self.config.parallel.rank,
            self.kv_bytes_per_chunk,
            self.cpu_page_size_per_worker,
        )
        try:
            worker = HostCopyWorker(kv_caches, self.blocks_per_chunk, self._chunks, region)
        except Exception:
            region.cleanup()
            raise
        self._forget_name(region)
        return worker

    def _forget_name(self, region: SharedOffloadRegion) -> None:
        # A single worker and the scheduler are the only two that open the file. Whoever comes second
        # removes its name, so that no way of ending, SIGKILL included, leaves memory behind in /dev/shm.
        if self.config.parallel.world_size == 1 and not region._creator:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(region.mmap_path)


class _Region(SharedOffloadRegion):  # type: ignore[misc]
    """A shared region whose name may be gone before it is cleaned up."""

    _creator: bool

    def cleanup(self) -> None:
        self._creator = self._creator and os.path.exists(self.mmap_path)
        super().cleanup()


def _has_own_worker() -> bool:
    return bool(current_platform.is_cuda_alike() or current_platform.is_xpu())


def _check_size(value: Any) -> None:
    try:
        size = int(value or 0)
    except (TypeError, ValueError):
        size = -1
    if size <= 0:
        raise ValueError(
            f"cpu_bytes_to_use `{value}` is not a size: give the bytes of the host tier, over all ranks, "
            "in kv_connector_extra_config"
        )
