"""What each tier of vLLM's native tiering did in a window: chunks asked and found, bytes and seconds both ways."""

from collections import defaultdict
from dataclasses import dataclass

from warmset.meters.readings import Reading, Readings

# The metrics of `warmset.vllm.tier`; they carry the plain type, vLLM's own `1:type`.
_OWN = "vllm:warmset_tier_"
_RESULTS = ("lookups_total", "loads_total", "stores_total", "failures_total")


@dataclass(frozen=True, slots=True)
class TierMeters:
    """One tier; None where the server does not count it.

    Attributes:
        tier: as the server labels it, such as `0:primary` or `1:fs`.
        hit_ratio: chunks found over chunks asked for.
        blocks: blocks by what became of them (`loads.corrupt`, `lookups.expired`, …), for tiers that tell.
    """

    tier: str
    queried_chunks: float | None
    hit_chunks: float | None
    read_bytes: float | None
    read_seconds: float | None
    write_bytes: float | None
    write_seconds: float | None
    failed_loads: float | None
    failed_stores: float | None
    blocks: dict[str, float]

    @property
    def hit_ratio(self) -> float | None:
        """Chunks found over chunks asked for."""
        return (self.hit_chunks or 0.0) / self.queried_chunks if self.queried_chunks else None


def tier_meters(r: Readings) -> tuple[TierMeters, ...]:
    """Every tier that the window tells of, in the server's order; empty without native tiering."""
    asked, found = r.counter_by("tiering_chunk_queries", "tier"), r.counter_by("tiering_chunk_hits", "tier")
    read, read_time = r.counter_by("tiering_read_bytes", "tier"), r.counter_by("tiering_read_time", "tier")
    written, write_time = (
        r.counter_by("tiering_write_bytes", "tier"),
        r.counter_by("tiering_write_time", "tier"),
    )
    failed_loads = r.counter_by("tiering_promotion_failures", "tier")
    failed_stores = r.counter_by("tiering_cascade_failures", "tier")
    own = _own_results(r)

    def value(column: dict[str, Reading], tier: str) -> float | None:
        return column[tier].value if tier in column else None

    return tuple(
        TierMeters(
            tier,
            queried_chunks=value(asked, tier),
            hit_chunks=value(found, tier),
            read_bytes=value(read, tier),
            read_seconds=value(read_time, tier),
            write_bytes=value(written, tier),
            write_seconds=value(write_time, tier),
            failed_loads=value(failed_loads, tier),
            failed_stores=value(failed_stores, tier),
            blocks=own.get(tier.partition(":")[2], {}),
        )
        for tier in sorted({*asked, *found, *read, *written, *failed_loads, *failed_stores})
    )


def _own_results(r: Readings) -> dict[str, dict[str, float]]:
    results: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for family in _RESULTS:
        for row in r.window.increases.get(_OWN + family, ()):
            labels = dict(row.labels)
            results[labels.get("tier", "")][f"{family.removesuffix('_total')}.{labels.get('result')}"] += (
                row.value
            )
    return {tier: dict(sorted(counts.items())) for tier, counts in results.items()}
