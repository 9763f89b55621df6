"""Counts what a store holds."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from warmset.tiers.store import TIER_ROOT, Capacity, Store

# Upper bounds of the age classes: a minute, ten minutes, an hour, six hours, a day, a week; then older.
_AGES_SECONDS = (60.0, 600.0, 3600.0, 21600.0, 86400.0, 604800.0)


@dataclass(frozen=True, slots=True)
class Namespace:
    """The objects of engines that share blocks; of others' objects, those whose keys share their first segment."""

    name: str
    objects: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class AgeClass:
    """Objects not older than `at_most_seconds` and older than the class before; None is the last, open class."""

    at_most_seconds: float | None
    objects: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Totals, by namespace and by age; ages are None for an empty store."""

    objects: int
    stored_bytes: int
    oldest_age_seconds: float | None
    newest_age_seconds: float | None
    capacity: Capacity
    namespaces: tuple[Namespace, ...]
    ages: tuple[AgeClass, ...]


def stats(store: Store, *, prefix: str = "", now: Callable[[], float] = time.time) -> StoreStats:
    """Count every object below `prefix`, in constant memory but for the names of namespaces."""
    spaces: dict[str, list[int]] = {}
    classes = [[0, 0] for _ in range(len(_AGES_SECONDS) + 1)]
    oldest, newest, moment = None, None, now()
    for entry in store.entries(prefix):
        space = spaces.setdefault(_space(entry.key), [0, 0])
        age = max(0.0, moment - entry.modified_seconds)
        index = next((i for i, bound in enumerate(_AGES_SECONDS) if age <= bound), len(_AGES_SECONDS))
        for counts in (space, classes[index]):
            counts[0] += 1
            counts[1] += entry.size_bytes
        oldest = age if oldest is None else max(oldest, age)
        newest = age if newest is None else min(newest, age)
    bounds: tuple[float | None, ...] = (*_AGES_SECONDS, None)
    return StoreStats(
        objects=sum(count for count, _ in classes),
        stored_bytes=sum(size for _, size in classes),
        oldest_age_seconds=oldest,
        newest_age_seconds=newest,
        capacity=store.capacity(),
        namespaces=tuple(Namespace(name, *counts) for name, counts in sorted(spaces.items())),
        ages=tuple(AgeClass(bound, *counts) for bound, counts in zip(bounds, classes, strict=True)),
    )


def _space(key: str) -> str:
    first, *rest = key.split("/")[:-1] or [""]
    # The tier's own namespaces lie side by side below one folder.
    return f"{first}/{rest[0]}" if f"{first}/" == TIER_ROOT and rest else first
