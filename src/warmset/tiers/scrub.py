"""Reads every object of a store, checks its seal, and opens it where a key is needed and at hand."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from warmset.tiers.buffers import BufferPool
from warmset.tiers.encoding import Encoding, is_encrypted
from warmset.tiers.errors import Corrupt, Locked, NotFound, StoreError, TooLarge
from warmset.tiers.seal import HEADER_BYTES, MAGIC, Seal, read_seal
from warmset.tiers.store import TIER_ROOT, Entry, Store

# No tier makes larger blocks; what claims to be larger once it is unpacked was made to fill our memory.
_LARGEST_PAYLOAD_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Fault:
    """An object that may not be used, or that could not be read."""

    key: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Scrub:
    """What a scrub found. `engines` counts objects per fingerprint digest (hex), `encodings` per way of storing.

    `foreign` are objects outside a tier's own place without a tier's header: somebody else's, and not judged.
    `unopened` are encrypted objects that were checked as far as it goes without a key: their stored bytes are whole.
    """

    objects: int
    read_bytes: int
    corrupt: tuple[Fault, ...]
    unreadable: tuple[Fault, ...]
    deleted: int
    engines: dict[str, int]
    encodings: dict[str, int]
    unopened: int
    foreign: int = 0


def scrub(
    store: Store,
    *,
    prefix: str = "",
    delete_corrupt: bool = False,
    master_key: bytes | None = None,
    progress: Callable[[int, int], None] = lambda objects, read_bytes: None,
) -> Scrub:
    """Check every object below `prefix`, a few at a time so that a serving engine is not starved.

    An object that vanishes meanwhile was evicted: no fault. One that cannot be read is `unreadable`, and is never
    deleted: a store in trouble is not a corrupt one. So is one that `master_key` does not open; without a key, the
    checksum of the stored bytes alone decides.
    """
    objects, read_bytes, deleted = 0, 0, 0
    corrupt: list[Fault] = []
    unreadable: list[Fault] = []
    engines: dict[str, int] = {}
    encodings: dict[str, int] = {}
    unopened = foreign = 0
    opener = _Opener(master_key)
    workers = min(4, store.properties.requests_in_flight)
    for entry, outcome in _checked(store, store.entries(prefix), workers, opener):
        objects += 1
        read_bytes += entry.size_bytes
        if isinstance(outcome, Seal):
            engine = outcome.fingerprint_digest.hex()
            engines[engine] = engines.get(engine, 0) + 1
            encodings[outcome.encoding] = encodings.get(outcome.encoding, 0) + 1
            unopened += master_key is None and is_encrypted(outcome.encoding)
        elif outcome is None:
            foreign += 1
        elif isinstance(outcome, Corrupt):
            corrupt.append(Fault(entry.key, "corrupt", outcome.message))
            if delete_corrupt:
                store.delete([entry.key])
                deleted += 1
        elif not isinstance(outcome, NotFound):
            unreadable.append(Fault(entry.key, type(outcome).__name__.lower(), outcome.message))
        progress(objects, read_bytes)
    return Scrub(
        objects, read_bytes, tuple(corrupt), tuple(unreadable), deleted, engines, encodings, unopened, foreign
    )


class _Opener:
    """Decodes payloads as far as it can; a store may hold objects of engines with and without a key."""

    def __init__(self, master_key: bytes | None) -> None:
        self._plain = Encoding()
        self._keyed = None if master_key is None else Encoding(master_key=master_key)

    def check(self, key: str, seal: Seal, stored: memoryview) -> None:
        """Raise what `Encoding.decode` raises; without a key, encrypted objects pass."""
        encoding = self._keyed if self._keyed is not None and is_encrypted(seal.encoding) else self._plain
        try:
            encoding.decode(key, seal.encoding, seal.key_id, stored, _LARGEST_PAYLOAD_BYTES)
        except Locked:
            if self._keyed is not None:
                raise


def _checked(
    store: Store, entries: Iterator[Entry], workers: int, opener: "_Opener"
) -> Iterator[tuple[Entry, Seal | StoreError | None]]:
    """Every object and what became of it; None for one that is no block and not where a tier keeps its blocks."""
    # Objects may have any size, each with a buffer of its own.
    pool = BufferPool(keep_bytes=64 << 20, rotate_bytes=0)

    def check(entry: Entry) -> tuple[Entry, Seal | StoreError | None]:
        try:
            with pool.lend(entry.size_bytes) as buffer:
                try:
                    size = store.get(entry.key, buffer)
                except TooLarge:
                    return entry, NotFound(f"object `{entry.key}` was replaced meanwhile")
                if not entry.key.startswith(TIER_ROOT) and bytes(buffer[: min(size, len(MAGIC))]) != MAGIC:
                    return entry, None
                seal = read_seal(entry.key, buffer[:size])
                opener.check(entry.key, seal, buffer[HEADER_BYTES:size])
                return entry, seal
        except StoreError as error:
            return entry, error

    with ThreadPoolExecutor(workers, "warmset-scrub") as threads:
        running: set[Future[tuple[Entry, Seal | StoreError | None]]] = set()
        for entry in entries:
            running.add(threads.submit(check, entry))
            # Listing may be endless compared with memory: never hold more than a few objects.
            if len(running) >= 2 * workers:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        yield from (future.result() for future in running)
