"""Keeps a store within bytes and age, safely with several writers: eviction needs no agreement between them."""

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass

from warmset.tiers.store import Entry, Store

_BATCH = 256


@dataclass(frozen=True, slots=True)
class Eviction:
    """What one pass did (or would do, for a dry run); `keys` are the objects that are gone."""

    objects: int
    total_bytes: int
    expired_objects: int
    evicted_objects: int
    freed_bytes: int
    keys: tuple[str, ...] = ()

    @property
    def kept_bytes(self) -> int:
        """Bytes that remain."""
        return self.total_bytes - self.freed_bytes


def evict(
    store: Store,
    *,
    prefix: str = "",
    capacity_bytes: int | None = None,
    max_age_seconds: float | None = None,
    low_water_ratio: float = 0.9,
    make_room: bool = False,
    dry_run: bool = False,
    now: Callable[[], float] = time.time,
) -> Eviction:
    """Delete what is older than `max_age_seconds`, then the least recent until `capacity_bytes` holds.

    Above the capacity it goes down to `low_water_ratio` of it, so that the next pass is not due at once. With
    `make_room` the store is full, whatever its capacity was thought to be: that share of what is there goes.
    Two writers that evict at the same time choose the same victims, and deleting twice is no error; a reader that
    loses the race sees a miss.
    """
    entries = list(store.entries(prefix))
    total_bytes = sum(entry.size_bytes for entry in entries)
    oldest = now() - max_age_seconds if max_age_seconds is not None else float("-inf")
    expired = [entry for entry in entries if entry.modified_seconds < oldest]
    kept_bytes = total_bytes - sum(entry.size_bytes for entry in expired)
    victims: list[Entry] = []
    limit = capacity_bytes if capacity_bytes is not None else float("inf")
    if make_room and not expired:
        limit = min(limit, kept_bytes - 1)
    if kept_bytes > limit:
        target = low_water_ratio * limit
        alive = [(e.modified_seconds, e.key, e) for e in entries if e.modified_seconds >= oldest]
        heapq.heapify(alive)
        while kept_bytes > target and alive:
            victims.append(heapq.heappop(alive)[2])
            kept_bytes -= victims[-1].size_bytes
    keys = tuple(entry.key for entry in (*expired, *victims))
    if not dry_run:
        for start in range(0, len(keys), _BATCH):
            store.delete(keys[start : start + _BATCH])
    return Eviction(len(entries), total_bytes, len(expired), len(victims), total_bytes - kept_bytes, keys)
