"""A KV connector that records traffic: it stores nothing, loads nothing and sees every request.

    vllm serve MODEL --kv-transfer-config '{"kv_connector": "TrafficRecorder", "kv_role": "kv_both",
      "kv_connector_module_path": "warmset.vllm.recorder",
      "kv_connector_extra_config": {"path": "traffic.jsonl.gz"}}'

It runs alone or beside another connector in vLLM's MultiConnector, also for hybrid models. On the
scheduler's thread it joins a request's block hashes and queues them; a process of its own shortens and
salts them, writes the trace and keeps the hit-rate curve (`recorder_writer.py`). On /metrics it shows the
hit ratio of caches of ½×, 1×, 2×, 4× … the device pool on this traffic.
"""

import json
import math
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmset.vllm.versions import require_vllm

require_vllm("0.28", "external connectors had another interface, which this one was never tried with")

from prometheus_client import Gauge  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1 import (  # noqa: E402
    KVConnectorBase_V1,
    KVConnectorRole,
    SupportsHMA,
)
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics  # noqa: E402
from vllm.logger import init_logger  # noqa: E402
from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes  # noqa: E402

from warmset.vllm.recorder_settings import RecorderSettings, live_path  # noqa: E402
from warmset.vllm.recorder_tap import Tap  # noqa: E402

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import KVCacheConfig

logger = init_logger(__name__)
_POLL_SECONDS = 1.0


class TrafficRecorder(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """Records every request that finishes; a fault of its own ends the recording, never the server."""

    def __init__(self, vllm_config: "VllmConfig", role: Any, kv_cache_config: "KVCacheConfig") -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._tap: Tap | None = None
        if role != KVConnectorRole.SCHEDULER:
            return
        _, self._block_tokens = resolve_kv_cache_block_sizes(kv_cache_config, vllm_config)
        groups = max(1, len(kv_cache_config.kv_cache_groups))
        pool_tokens = kv_cache_config.num_blocks * vllm_config.cache_config.block_size // groups
        # Requests that run: when they arrived, and what the device had; the oldest first.
        self._running: dict[str, tuple[float, int]] = {}
        self._tap = Tap(
            _settings(vllm_config),
            block_tokens=self._block_tokens,
            device_blocks=pool_tokens // self._block_tokens,
            model=str(vllm_config.model_config.served_model_name or vllm_config.model_config.model),
        )

    # --- scheduler ---

    @property
    def requires_kv_delivery(self) -> bool:
        """Nothing is handed over, so nothing has to arrive."""
        return False

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        """Note what the device had; there is nothing to load."""
        if self._tap is not None:
            # The first admission counts: what a preempted request finds again is its own.
            self._running.setdefault(request.request_id, (request.arrival_time, num_computed_tokens))
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Nothing to do."""

    def build_connector_meta(self, scheduler_output: Any) -> Any:
        """Nothing to tell the workers."""
        return KVConnectorMetadata()

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        """Queue the request for the recording."""
        if self._tap is not None:
            _, hit = self._running.pop(request.request_id, (0.0, None))
            oldest, _ = next(iter(self._running.values()), (math.inf, 0))
            try:
                tokens = request.num_prompt_tokens
                self._tap.put(
                    request.arrival_time,
                    tokens,
                    request.num_output_tokens,
                    hit,
                    request.block_hashes[: tokens // self._block_tokens],
                    oldest_running=oldest,
                )
            except Exception:  # the server must go on whatever happens here
                logger.exception("the traffic recorder failed and stops recording")
                self._tap = None
        return False, None

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        """As `request_finished`, for models with several KV cache groups."""
        return self.request_finished(request, [])

    def shutdown(self) -> None:
        """Let the writer finish the file."""
        if self._tap is not None:
            self._tap.close()
            self._tap = None

    # --- worker: nothing moves ---

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Nothing to load."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Nothing to wait for."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """Nothing to save."""

    def wait_for_save(self) -> None:
        """Nothing to wait for."""

    # --- metrics ---

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: "VllmConfig",
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> KVConnectorPromMetrics:
        """Gauges in the process that serves /metrics."""
        return RecorderMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)


class RecorderMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """Shows what the writer last worked out; it reads the writer's file and costs the engine nothing."""

    def __init__(
        self,
        vllm_config: "VllmConfig",
        metric_types: dict[Any, Any],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        gauge = metric_types[Gauge]

        def make(name: str, text: str, *labels: str) -> Any:
            return gauge(
                name=f"warmset:recorder_{name}",
                documentation=text,
                # Several API servers read the same file; each would show its own copy otherwise.
                multiprocess_mode="mostrecent",
                labelnames=[*labelnames, *labels],
            )

        self._ratio = make(
            "hit_ratio",
            "Hit ratio that a cache of this many device pools would have on the recorded traffic.",
            "device_pools",
            "capacity_blocks",
        )
        self._gain = make(
            "host_tier_hit_ratio",
            "Hit ratio that a host tier of this many device pools would add to the device's own; "
            "it also holds what the device holds.",
            "device_pools",
            "capacity_blocks",
        )
        self._up = make(
            "up", "1 while the recorder writes its curve; 0 when it cannot, or its writer is gone."
        )
        self._counts = {
            "requests": make("requests", "Requests recorded since the start."),
            "dropped_requests": make(
                "dropped_requests", "Requests left out because the writer was behind or the disk full."
            ),
            "sampled_ratio": make("sampled_ratio", "Share of blocks that the curve follows; 1 is exact."),
        }
        self._paths = {
            engine: live_path(_settings(vllm_config, engine).path) for engine in per_engine_labelvalues
        }
        self._seen: dict[int, int] = {}
        threading.Thread(target=self._follow, name="warmset-recorder-metrics", daemon=True).start()

    def observe(self, transfer_stats_data: Mapping[str, Any], engine_idx: int = 0) -> None:
        """The recorder sends nothing through the engine."""

    def _follow(self) -> None:
        pause = threading.Event()
        while not pause.wait(_POLL_SECONDS):
            for engine, path in self._paths.items():
                up = True
                try:
                    self._read(engine, path)
                except OSError:
                    up = False
                except (ValueError, KeyError, TypeError):
                    continue
                self._up.labels(*self.per_engine_labelvalues[engine]).set(up)

    def _read(self, engine: int, path: Path) -> None:
        changed = path.stat().st_mtime_ns
        if self._seen.get(engine) == changed:
            return
        live = json.loads(path.read_text(encoding="utf-8"))
        labels = self.per_engine_labelvalues[engine]
        for point in live["points"]:
            place = [*labels, f"{point['device_pools']:g}", str(point["capacity_blocks"])]
            self._ratio.labels(*place).set(point["hit_ratio"])
            self._gain.labels(*place).set(point["host_tier_hit_ratio"])
        for name, gauge in self._counts.items():
            gauge.labels(*labels).set(live[name])
        self._seen[engine] = changed


def _settings(vllm_config: "VllmConfig", engine: int | None = None) -> RecorderSettings:
    parallel = vllm_config.parallel_config
    index = parallel.data_parallel_index if engine is None else engine
    extra = vllm_config.kv_transfer_config.kv_connector_extra_config
    return RecorderSettings.parse(extra, replica=index if parallel.data_parallel_size > 1 else None)
