"""The metrics of the tier on vLLM's own /metrics."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats
from vllm.v1.kv_offload.base import (
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    OffloadingHistogramMetadata,
    OffloadingMetricMetadata,
)

from warmset.tiers.breaker import CircuitBreaker
from warmset.tiers.evict import Eviction
from warmset.tiers.lookup import Lookups
from warmset.tiers.meter import LATENCY_BOUNDS_SECONDS
from warmset.tiers.transfer import Outcome, Transfers

_PREFIX = "vllm:warmset_tier_"
_STATES = {"closed": 0, "half-open": 1, "open": 2}

# Our counts to metrics: (counter, label value); lookups count blocks asked for, transfers count blocks moved.
_LOOKUPS = {
    "hits": "hit",
    "misses": "miss",
    "remembered_misses": "remembered_miss",
    "expired": "expired",
    "failed": "failed",
    "unavailable": "unavailable",
}
_TRANSFERS = {
    "loaded": ("loads", "loaded"),
    "stored": ("stores", "stored"),
    "already_stored": ("stores", "present"),
    "corrupt": ("loads", "corrupt"),
    "vanished": ("loads", "vanished"),
    "full": ("stores", "full"),
    "dropped": ("stores", "dropped"),
    "failed": ("failures", "failed"),
    "expired": ("failures", "expired"),
}


def definitions() -> dict[str, OffloadingMetricMetadata]:
    """Names, types and help; every one carries the label `tier`."""
    counter, gauge, histogram = (
        OffloadingCounterMetadata,
        OffloadingGaugeMetadata,
        OffloadingHistogramMetadata,
    )
    tier, result = ("tier",), ("tier", "result")
    found: dict[str, OffloadingMetricMetadata] = {
        "lookups": counter("Blocks looked up in the store, by result.", result),
        "probes": counter("Questions sent to the store for lookups.", tier),
        "loads": counter("Blocks loaded, by result; corrupt ones were not used.", result),
        "stores": counter("Blocks offered to the store, by result.", result),
        "failures": counter("Blocks whose transfer failed or ran out of time.", result),
        "load_bytes": counter("Bytes loaded and verified.", tier),
        "store_bytes": counter("Bytes stored.", tier),
        "evicted_bytes": counter("Bytes that this engine deleted to bound the store.", tier),
        "held_bytes": gauge("Bytes in the store at the last eviction pass, of all engines.", tier),
        "queued_store_bytes": gauge("Bytes that wait to be stored.", tier),
        "hanging_threads": gauge("Threads that wait for a store that does not answer.", tier),
        "breaker_state": gauge("0 closed (healthy), 1 half-open, 2 open (the store is left alone).", tier),
        "lookup_seconds": histogram("Time of one lookup probe.", tier, LATENCY_BOUNDS_SECONDS),
        "load_seconds": histogram("Time of one load job.", tier, LATENCY_BOUNDS_SECONDS),
    }
    return {_PREFIX + name: metadata for name, metadata in found.items()}


class TierMetrics:
    """Turns counts since the start into the increments that vLLM collects."""

    def __init__(self, tier: str) -> None:
        self._tier = tier
        self._reported: dict[str, int] = {}
        self._loads: list[Outcome] = []
        self._stored_bytes = 0
        self._evicted_bytes = 0
        self._held_bytes: int | None = None

    def on_outcome(self, outcome: Outcome) -> None:
        """A job ended."""
        if outcome.is_load:
            self._loads.append(outcome)
        else:
            self._stored_bytes += outcome.moved_bytes

    def on_eviction(self, done: Eviction) -> None:
        """An eviction pass ended."""
        self._evicted_bytes += done.freed_bytes
        self._held_bytes = done.kept_bytes

    def take(
        self, lookups: Lookups, transfers: Transfers, breaker: CircuitBreaker
    ) -> OffloadingConnectorStats:
        """Everything since the last call."""
        stats = OffloadingConnectorStats()
        tier = (self._tier,)
        asked: Mapping[str, Any] = asdict(lookups.counts)
        for name, result in _LOOKUPS.items():
            self._count(stats, "lookups", result, f"lookup.{name}", asked[name])
        self._count(stats, "probes", None, "lookup.probes", asked["probes"])
        moved: Mapping[str, Any] = asdict(transfers.counts)
        for name, (metric, result) in _TRANSFERS.items():
            self._count(stats, metric, result, f"transfer.{name}", moved[name])
        for seconds in lookups.durations_seconds():
            stats.observe_histogram(_PREFIX + "lookup_seconds", seconds, tier)
        for outcome in self._loads:
            stats.observe_histogram(_PREFIX + "load_seconds", outcome.seconds, tier)
        for metric, amount in (
            ("load_bytes", sum(o.moved_bytes for o in self._loads)),
            ("store_bytes", self._stored_bytes),
            ("evicted_bytes", self._evicted_bytes),
        ):
            if amount:
                stats.increase_counter(_PREFIX + metric, amount, tier)
        self._loads, self._stored_bytes, self._evicted_bytes = [], 0, 0
        if self._held_bytes is not None:
            stats.set_gauge(_PREFIX + "held_bytes", self._held_bytes, tier)
        stats.set_gauge(_PREFIX + "queued_store_bytes", transfers.queued_store_bytes, tier)
        stats.set_gauge(_PREFIX + "hanging_threads", transfers.hanging + lookups.hanging, tier)
        stats.set_gauge(_PREFIX + "breaker_state", _STATES[breaker.state], tier)
        return stats

    def _count(
        self, stats: OffloadingConnectorStats, metric: str, result: str | None, name: str, total: int
    ) -> None:
        increase = total - self._reported.get(name, 0)
        if increase:
            self._reported[name] = total
            labels = (self._tier,) if result is None else (self._tier, result)
            stats.increase_counter(_PREFIX + metric, increase, labels)
