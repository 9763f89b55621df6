"""Reads every object of a store and checks its seal."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from warmset.tiers.buffers import BufferPool
from warmset.tiers.errors import Corrupt, NotFound, StoreError, TooLarge
from warmset.tiers.seal import Seal, read_seal
from warmset.tiers.store import Entry, Store


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that may not be used, or that could not be read."""

    key: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scrub:
    """What a scrub found. `engines` counts objects per fingerprint digest (hex)."""

    objects: int
    read_bytes: int
    corrupt: tuple[Fault, ...]
    unreadable: tuple[Fault, ...]
    deleted: int
    engines: dict[str, int]


def scrub(
    store: Store,
    *,
    prefix: str = "",
    delete_corrupt: bool = False,
    progress: Callable[[int, int], None] = lambda objects, read_bytes: None,
) -> Scrub:
    """Check every object below `prefix`, a few at a time so that a serving engine is not starved.

    An object that vanishes meanwhile was evicted: no fault. One that cannot be read is `unreadable`, and is never
    deleted: a store in trouble is not a corrupt one.
    """
    objects, read_bytes, deleted = 0, 0, 0
    corrupt: list[Fault] = []
    unreadable: list[Fault] = []
    engines: dict[str, int] = {}
    workers = min(4, store.properties.requests_in_flight)
    for entry, outcome in _checked(store, store.entries(prefix), workers):
        objects += 1
        read_bytes += entry.size_bytes
        if isinstance(outcome, Seal):
            engine = outcome.fingerprint_digest.hex()
            engines[engine] = engines.get(engine, 0) + 1
        elif isinstance(outcome, Corrupt):
            corrupt.append(Fault(entry.key, "corrupt", outcome.message))
            if delete_corrupt:
                store.delete([entry.key])
                deleted += 1
        elif not isinstance(outcome, NotFound):
            unreadable.append(Fault(entry.key, type(outcome).__name__.lower(), outcome.message))
        progress(objects, read_bytes)
    return Scrub(objects, read_bytes, tuple(corrupt), tuple(unreadable), deleted, engines)


def _checked(
    store: Store, entries: Iterator[Entry], workers: int
) -> Iterator[tuple[Entry, Seal | StoreError]]:
    pool = BufferPool(keep_bytes=64 << 20)

    def check(entry: Entry) -> tuple[Entry, Seal | StoreError]:
        try:
            with pool.lend(entry.size_bytes) as buffer:
                return entry, read_seal(entry.key, buffer[: store.get(entry.key, buffer)])
        except TooLarge:
            return entry, NotFound(f"object `{entry.key}` was replaced meanwhile")
        except StoreError as error:
            return entry, error

    with ThreadPoolExecutor(workers, "warmset-scrub") as threads:
        running: set[Future[tuple[Entry, Seal | StoreError]]] = set()
        for entry in entries:
            running.add(threads.submit(check, entry))
            # Listing may be endless compared with memory: never hold more than a few objects.
            if len(running) >= 2 * workers:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in running)
