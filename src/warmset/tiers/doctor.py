"""Tries everything that a tier needs of a store, and says what is wrong."""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from warmset.tiers.errors import Full, NotFound, StoreError
from warmset.tiers.store import Store

Status = Literal["ok", "warning", "failed", "skipped"]

# A lookup that takes longer than this delays every request that misses.
_SLOW_LOOKUP_SECONDS = 0.05
_CLOCK_SKEW_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Examination:
    """One thing that was tried."""

    name: str
    status: Status
    detail: str
    advice: str | None = None


def examine(store: Store) -> tuple[Examination, ...]:
    """List, write, look up, read back, compare clocks, delete; leaves nothing behind."""
    key = f"warmset-doctor-{secrets.token_hex(6)}/probe"
    data = secrets.token_bytes(65536)
    found: list[Examination] = []

    def attempt(name: str, action: Callable[[], Examination]) -> bool:
        if any(e.status == "failed" for e in found):
            found.append(Examination(name, "skipped", "an earlier step failed"))
            return False
        try:
            found.append(action())
        except StoreError as error:
            found.append(Examination(name, "failed", error.message, error.hint))
        return found[-1].status != "failed"

    try:
        attempt("list", lambda: _listed(store))
        attempt("write", lambda: _written(store, key, data))
        attempt("look up", lambda: _looked_up(store, key))
        attempt("read back", lambda: _read_back(store, key, data))
        attempt("clock", lambda: _clock(store, key))
        attempt("space", lambda: _space(store))
        attempt("delete", lambda: _deleted(store, key))
    finally:
        with suppress(StoreError):
            store.delete([key])
    return tuple(found)


def _listed(store: Store) -> Examination:
    begin = time.perf_counter()
    first = next(iter(store.entries()), None)
    what = "the store is empty" if first is None else "the store holds objects"
    return Examination("list", "ok", f"{what}; {_ms(time.perf_counter() - begin)} to the first")


def _written(store: Store, key: str, data: bytes) -> Examination:
    begin = time.perf_counter()
    store.put(key, data)
    return Examination("write", "ok", f"64 KiB in {_ms(time.perf_counter() - begin)}")


def _looked_up(store: Store, key: str) -> Examination:
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        if store.exists([key, key + "-missing"]) != [True, False]:
            return Examination(
                "look up", "failed", "a new object is not found", "the store is not consistent"
            )
        times.append(time.perf_counter() - begin)
    median = sorted(times)[len(times) // 2]
    slow = median > _SLOW_LOOKUP_SECONDS
    return Examination(
        "look up",
        "warning" if slow else "ok",
        f"median {_ms(median)}",
        "every request that misses waits this long: use a store that is nearer" if slow else None,
    )


def _read_back(store: Store, key: str, data: bytes) -> Examination:
    buffer = bytearray(len(data))
    begin = time.perf_counter()
    size = store.get(key, memoryview(buffer))
    took = time.perf_counter() - begin
    if bytes(buffer[:size]) != data:
        return Examination("read back", "failed", "other bytes than were written", "do not use this store")
    return Examination("read back", "ok", f"64 KiB in {_ms(took)}, identical")


def _clock(store: Store, key: str) -> Examination:
    entry = next(iter(store.entries(key)), None)
    if entry is None:
        return Examination("clock", "warning", "the new object is not listed yet", "eviction will lag behind")
    skew = entry.modified_seconds - time.time()
    if abs(skew) > _CLOCK_SKEW_SECONDS:
        return Examination(
            "clock",
            "warning",
            f"the store's clock is off by {skew:+.0f} s",
            "synchronise it: age decides eviction",
        )
    return Examination("clock", "ok", f"within {_CLOCK_SKEW_SECONDS:.0f} s of this machine's")


def _space(store: Store) -> Examination:
    capacity = store.capacity()
    if capacity.total_bytes is None or capacity.free_bytes is None:
        return Examination(
            "space", "ok", "the store has no capacity to ask for: bound the tier by `capacity_bytes`"
        )
    ratio = capacity.free_bytes / capacity.total_bytes
    detail = f"{capacity.free_bytes / 2**30:,.1f} GiB free of {capacity.total_bytes / 2**30:,.1f} GiB"
    if ratio < 0.05:
        return Examination("space", "warning", detail, Full.fix)
    return Examination("space", "ok", detail)


def _deleted(store: Store, key: str) -> Examination:
    store.delete([key])
    if store.exists([key]) == [True]:
        return Examination("delete", "failed", "a deleted object is still found", "eviction cannot work here")
    with suppress(NotFound):
        store.get(key, memoryview(bytearray(65536)))
        return Examination(
            "delete", "failed", "a deleted object can still be read", "eviction cannot work here"
        )
    return Examination("delete", "ok", "the object is gone")


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2g} ms"
