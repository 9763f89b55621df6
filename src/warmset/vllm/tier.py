"""A tier below RAM for vLLM's native tiering: it serves only blocks that it has verified, and no request waits for it
longer than a deadline.

"secondary_tiers": [{"type": "WarmsetTier", "module_path": "warmset.vllm.tier", "store": "file:///kv",
                     "capacity_bytes": 2199023255552, "max_age_seconds": 604800, "lookup_deadline_seconds": 1.0}]
"""

import hashlib
import itertools
import secrets
import threading
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, ClassVar

from warmset.vllm.versions import require_vllm

require_vllm("0.28", "it has no tiers from outside (`module_path` of a secondary tier)")

from vllm.logger import init_logger  # noqa: E402
from vllm.v1.kv_offload.base import (  # noqa: E402
    Locality,
    LookupResult,
    Medium,
    OffloadingEvent,
    OffloadKey,
    ReqContext,
    RequestOffloadingContext,
    ScheduleEndContext,
    get_offload_block_hash,
    get_offload_group_idx,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob  # noqa: E402

from warmset.errors import InputError, WarmsetError  # noqa: E402
from warmset.tiers.breaker import CircuitBreaker  # noqa: E402
from warmset.tiers.encoding import Encoding  # noqa: E402
from warmset.tiers.errors import StoreError  # noqa: E402
from warmset.tiers.evict import Eviction, evict  # noqa: E402
from warmset.tiers.key import read_key  # noqa: E402
from warmset.tiers.lookup import Lookups  # noqa: E402
from warmset.tiers.retry import RetryingStore  # noqa: E402
from warmset.tiers.settings import TierSettings, parse  # noqa: E402
from warmset.tiers.store import TIER_ROOT, Store  # noqa: E402
from warmset.tiers.transfer import Outcome, Transfers  # noqa: E402
from warmset.tiers.url import StoreOptions, open_store  # noqa: E402
from warmset.tiers.verify import VerifyingStore  # noqa: E402
from warmset.vllm import tier_versions as versions  # noqa: E402
from warmset.vllm.namespace import fingerprint, has_only_full_attention, weights_may_change  # noqa: E402
from warmset.vllm.tier_metrics import TierMetrics, definitions  # noqa: E402

logger = init_logger(__name__)

_EVICTION_INTERVAL_SECONDS = 30.0


class WarmsetTier(SecondaryTierManager):  # type: ignore[misc]
    """Blocks in a store, under keys that only byte-compatible engines share. Everything here runs on the scheduler's
    thread and returns at once; the store is only touched by the threads of Lookups, Transfers and the evictor."""

    medium: ClassVar[Medium] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,
        enable_kv_events: bool = False,
        locality: str | None = None,
        **settings: Any,
    ) -> None:
        more = versions.base_arguments(backpressure_detector=backpressure_detector)
        super().__init__(offloading_spec, primary_kv_view, tier_type, **more)
        try:
            self._settings = parse(settings)
            key = read_key(self._settings.encryption_key_file, self._settings.encryption_key_env)
            encoding = Encoding(compress=self._settings.compress is not None, master_key=key)
        except InputError as error:
            raise ValueError(f"warmset tier: {error.message} ({error.hint})") from None
        self.locality = Locality(locality) if locality is not None else None
        facts = fingerprint(
            offloading_spec,
            block_bytes=versions.block_bytes(primary_kv_view),
            tenant=self._settings.tenant,
            model_path=self._settings.model_path,
            adapters_version=self._settings.adapters_version,
            encryption_key_id=encoding.key_id.hex() if key is not None else None,
        )
        self._namespace = _namespace(facts)
        self._breaker = CircuitBreaker(self._retrying(), failures_to_open=3)
        store = VerifyingStore(self._breaker, fingerprint=facts, encoding=encoding)
        self._lookups = Lookups(
            store.exists,
            deadline_seconds=self._settings.lookup_deadline_seconds,
            available=lambda: self._breaker.accepts,
            on_expired=self._breaker.report_failure,
        )
        self._transfers = Transfers(
            store,
            primary_kv_view,
            load_deadline_seconds=self._settings.load_deadline_seconds,
            store_deadline_seconds=self._settings.store_deadline_seconds,
            load_threads=self._settings.load_threads,
            store_threads=self._settings.store_threads,
            queued_store_bytes=self._settings.queued_store_bytes,
            on_expired=self._breaker.report_failure,
            on_full=lambda: self._evictor.hurry(),
        )
        # Without it a cold prompt costs one question per block, as nobody could tell its first block from its last.
        self._asked_in_order = not versions.HAS_POSITIONS and has_only_full_attention(offloading_spec)
        self._order = itertools.count()
        self._weights_may_change = weights_may_change(offloading_spec)
        self._evictor = _Evictor(self._breaker, self._settings)
        self._metrics = TierMetrics(tier_type)
        self._keys: dict[int, dict[str, OffloadKey]] = {}
        wants_events = enable_kv_events and offloading_spec.kv_events_config.enable_kv_cache_events
        self._events: list[OffloadingEvent] | None = [] if wants_events else None
        logger.info(
            "warmset tier: %s, namespace %s, blocks are stored %s",
            self._settings.store,
            self._namespace,
            encoding.name,
        )

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        """HIT, MISS, or RETRY while the store is being asked, for no longer than the deadline."""
        position = versions.position_of(key, req_context)
        if position is None and self._asked_in_order:
            position = next(self._order)
        found = self._lookups.ask(
            req_context.req_id,
            self._name(key),
            group=get_offload_group_idx(key),
            position=position,
        )
        if found is None:
            return LookupResult.RETRY
        return LookupResult.HIT if found else LookupResult.MISS

    def submit_store(self, job_metadata: TransferJob) -> None:
        """Queue blocks of the host tier to be stored."""
        self._submit(self._transfers.store, job_metadata)

    def submit_load(self, job_metadata: TransferJob) -> None:
        """Queue blocks to be loaded into slots of the host tier."""
        self._submit(self._transfers.load, job_metadata)

    def get_finished_jobs(self) -> Iterable[JobResult]:
        """Every job once: when it ended, or when its deadline passed."""
        return [self._result(outcome) for outcome in self._transfers.finished()]

    def has_pending_work(self) -> bool:
        """Whether the engine must keep stepping for this tier."""
        return self._transfers.active > 0 or self._lookups.waiting

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """Note the use of blocks, tail first: an ancestor is never evicted before its descendants."""
        self._evictor.touch([self._name(key) for key in reversed(list(keys))])

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        """Blocks are offered as they are computed."""
        return RequestOffloadingContext()

    def on_request_finished(self, req_context: ReqContext) -> None:
        """Drop what only this request asked for."""
        self._lookups.forget(req_context.req_id)

    def on_schedule_end(self, context: ScheduleEndContext) -> None:
        """Send this step's questions, while the model runs."""
        self._lookups.flush()
        gone = self._transfers.take_removed()
        for done in self._evictor.take():
            self._metrics.on_eviction(done)
            gone.extend(done.keys)
        own = [name for name in gone if name.startswith(self._namespace + "/")]
        self._announce([key for name in own if (key := _key_of(name)) is not None], removed=True)

    def take_events(self) -> Iterable[OffloadingEvent]:
        """Blocks stored and removed since the last call."""
        if self._events:
            events, self._events = self._events, []
            return events
        return ()

    def drain_jobs(self) -> None:
        """Return when no transfer touches the host tier any more.

        vLLM asks for this before it resets its cache, also when it has new weights. Where they can change in place,
        what follows is kept apart from everything before: nobody can tell which weights are in memory now.
        """
        self._transfers.drain()
        if self._weights_may_change:
            self._namespace = _namespace(f"{self._namespace} {secrets.token_hex(16)}")
            self._lookups.forget_all()
            logger.warning("warmset tier: the weights may have changed, namespace %s", self._namespace)

    def shutdown(self) -> None:
        """End all threads but those that hang in the store, which are daemons."""
        self._transfers.shutdown()
        self._lookups.shutdown()
        self._evictor.shutdown()
        self._breaker.close()

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:
        """See `warmset.vllm.tier_metrics`."""
        return dict(definitions())

    def get_stats(self) -> Any:
        """Metric increments since the last call."""
        return self._metrics.take(self._lookups, self._transfers, self._breaker)

    def _retrying(self) -> Store:
        # One refused request must not cost a prefix; half a lookup's time is left for the last attempt.
        return RetryingStore(self._open(), deadline_seconds=self._settings.lookup_deadline_seconds / 2)

    def _open(self) -> Store:
        settings = self._settings
        options = StoreOptions(
            endpoint=settings.endpoint,
            region=settings.region,
            ca_file=Path(settings.ca_file) if settings.ca_file else None,
            # A request that the deadline has given up on need not go on.
            timeout_seconds=max(settings.load_deadline_seconds, settings.lookup_deadline_seconds),
            put_timeout_seconds=settings.store_deadline_seconds,
            fsync=settings.fsync,
        )
        try:
            return open_store(settings.store, options)
        except WarmsetError as error:
            raise ValueError(
                f"warmset tier: {error.message}" + (f" ({error.hint})" if error.hint else "")
            ) from None

    def _name(self, key: OffloadKey) -> str:
        text = get_offload_block_hash(key).hex()
        return f"{self._namespace}/{get_offload_group_idx(key)}/{text[:2]}/{text}"

    def _submit(self, action: Any, job: TransferJob) -> None:
        names = [self._name(key) for key in job.keys]
        self._keys[job.job_id] = dict(zip(names, job.keys, strict=True))
        action(job.job_id, names, versions.slots_of(job))

    def _result(self, outcome: Outcome) -> JobResult:
        self._metrics.on_outcome(outcome)
        keys = self._keys.pop(outcome.job_id)
        done = set(outcome.done)
        if outcome.is_load:
            self._lookups.mark_missing([name for name in outcome.keys if name not in done])
        else:
            self._lookups.mark_stored(outcome.done)
            self._announce([keys[name] for name in outcome.done], removed=False)
            self._evictor.wrote(outcome.moved_bytes)
        return versions.job_result(
            job_id=outcome.job_id,
            success=outcome.success,
            successful_keys=tuple(keys[name] for name in outcome.done) or None,
            transfer_time=outcome.seconds,
            transfer_bytes=outcome.moved_bytes,
        )

    def _announce(self, keys: list[OffloadKey], *, removed: bool) -> None:
        if self._events is not None and keys:
            self._events.append(
                versions.event(
                    keys=keys,
                    medium=self.medium,
                    removed=removed,
                    locality=self.locality,
                    ownership=self.tier_type,
                )
            )


class _Evictor:
    """Bounds the store in a thread of its own: now and then, after much was written, and when the store is full."""

    def __init__(self, store: CircuitBreaker, settings: TierSettings) -> None:
        self._store, self._settings = store, settings
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._done: list[Eviction] = []
        self._touched: list[str] = []
        self._written_bytes = 0
        self._stopped = self._full = False
        self._bounded = settings.capacity_bytes is not None or settings.max_age_seconds is not None
        self._thread = threading.Thread(target=self._run, name="warmset-evict", daemon=True)
        self._thread.start()

    def touch(self, names: list[str]) -> None:
        """Note uses; they are written to the store in the background."""
        with self._lock:
            # Recency is a hint, which nobody needs without a bound: a burst beyond this may be forgotten.
            if self._bounded and len(self._touched) < 100_000:
                self._touched.extend(names)

    def wrote(self, size_bytes: int) -> None:
        """Count what was stored; a tenth of the capacity is worth a look."""
        self._written_bytes += size_bytes
        capacity = self._settings.capacity_bytes
        if capacity is not None and self._written_bytes > capacity / 10:
            self._written_bytes = 0
            self._wake.set()

    def hurry(self) -> None:
        """The store is full, whatever its capacity was thought to be."""
        self._full = True
        self._wake.set()

    def take(self) -> list[Eviction]:
        """The passes that ended since the last call."""
        with self._lock:
            done, self._done = self._done, []
        return done

    def shutdown(self) -> None:
        """End the thread, unless it hangs in the store."""
        self._stopped = True
        self._wake.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopped:
            began = time.monotonic()
            try:
                with self._lock:
                    touched, self._touched = self._touched, []
                if touched:
                    self._store.touch(list(dict.fromkeys(touched)))
                full, self._full = self._full, False
                if self._bounded or full:
                    done = evict(
                        self._store,
                        prefix=TIER_ROOT,
                        capacity_bytes=self._settings.capacity_bytes,
                        max_age_seconds=self._settings.max_age_seconds,
                        make_room=full,
                    )
                    with self._lock:
                        self._done.append(done)
            except StoreError as error:
                logger.warning("warmset tier: eviction failed: %s", error.message)
            except Exception:
                # The engine must not lose its evictor to one bad pass: without it the store grows without bound.
                logger.exception("warmset tier: eviction failed")
            # A pass lists the whole store: a large one must not keep this process busy.
            took = time.monotonic() - began
            # A store that stays full would wake it at every put.
            if not self._stopped:
                time.sleep(min(1.0, 20 * took))
            self._wake.wait(max(_EVICTION_INTERVAL_SECONDS, 20 * took))
            self._wake.clear()


def _namespace(facts: str) -> str:
    return TIER_ROOT + hashlib.blake2b(facts.encode(), digest_size=12).hexdigest()


def _key_of(name: str) -> OffloadKey | None:
    """The key of a stored block; None for what someone else put beside the blocks."""
    parts = name.rsplit("/", 3)[1:]
    try:
        group, _, text = parts
        return OffloadKey(bytes.fromhex(text) + int(group).to_bytes(4, "big"))
    except (ValueError, OverflowError):
        return None
