"""Stores below RAM side by side: this tier against vLLM's own file tier, its object store against bare obstore.

    BENCH_FOLDER=/mnt/nvme python -m benchmarks tiers     # where vLLM is installed

With AWS_ENDPOINT_URL set, an object store there is measured too, in the bucket BENCH_BUCKET.

Both file tiers are driven through the interface that vLLM calls them by, with their own defaults: threads, paths,
direct I/O, and verification on our side. Each block size is stored and loaded by both in pairs, one right after the
other and in changing order, so that whatever else the machine does meets both; the median over the pairs counts.

Pairs come from several processes (BENCH_PROCESSES, BENCH_PAIRS of each). In a virtual machine the memory that a process
happens to get makes a difference of a third, for as long as it runs.

Nothing is deleted before the end, so BENCH_FOLDER needs 24 GB: ext4 keeps away from inodes that were deleted in the
last minutes, and its search for others would take half the time.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from hashlib import sha256
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

PROCESSES = int(os.environ.get("BENCH_PROCESSES", "5"))
PAIRS = int(os.environ.get("BENCH_PAIRS", "2"))
TOTAL_BYTES = 256 << 20
SIZES = (512 << 10, 2 << 20, 8 << 20)
THREADS = 4


# What both took for one pass over all blocks: theirs and ours, in seconds.
Pairs = dict[str, list[tuple[float, float]]]


def main() -> Iterator[tuple[str, float, str]]:
    """Rates of both, and ours over theirs, by block size; without vLLM the disk is left out."""
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("BENCH_FOLDER")))
    kinds: list[tuple[str, str, Callable[[Path, int], Pairs]]] = []
    if find_spec("vllm"):
        kinds.append(("disk", "fs", _disk))
    if "AWS_ENDPOINT_URL" in os.environ:
        kinds.append(("object store", "obstore", _objects))
    try:
        for kind, name, measure in kinds:
            for size in SIZES:
                for what, pairs in _in_processes(measure, folder / kind / str(size), size).items():
                    label = f"{kind}, {size >> 10} KiB: "
                    for who, times in zip((name, "warmset"), zip(*pairs, strict=True), strict=True):
                        yield f"{label}{who}_{what}", round(TOTAL_BYTES / median(times)), "B/s"
                    ratios = sorted(theirs / ours for theirs, ours in pairs)
                    yield (
                        f"{label}{what}_ratio",
                        median(ratios),
                        f"ours ÷ theirs ({ratios[0]:.2f} to {ratios[-1]:.2f})",
                    )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_processes(measure: Callable[[Path, int], Pairs], folder: Path, size: int) -> Pairs:
    """The pairs of several processes, one after the other."""
    pairs: Pairs = {"store": [], "load": []}
    for number in range(PROCESSES):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            for what, some in process.submit(measure, folder / str(number), size).result().items():
                pairs[what] += some
    return pairs


def _disk(folder: Path, size: int) -> Pairs:
    """Stores and loads of vLLM's file tier and of ours, each as it comes, through the interface that vLLM uses."""
    from warmset.vllm.startup import answer_for_vllm, hide_mismatched_companions

    hide_mismatched_companions()
    answer_for_vllm()
    from vllm.v1.kv_offload.base import ReqContext, make_offload_key
    from vllm.v1.kv_offload.tiering.base import TransferJob
    from vllm.v1.kv_offload.tiering.fs.manager import FileSystemTierManager

    from warmset.vllm import tier as our_tier

    count = TOTAL_BYTES // size
    slots, _ = _slots(count, size)
    keys, others = (
        [make_offload_key(sha256(b"%s %d" % (name, number)).digest(), 0) for number in range(count)]
        for name in (b"timed", b"first")
    )
    # One job per request of eight blocks, as the connector makes them.
    jobs = [slice(start, start + 8) for start in range(0, count, 8)]

    def timed(tier: Any, submit: Any, keys: list[Any], jobs: list[slice]) -> float:
        begin = time.perf_counter()
        for number, some in enumerate(jobs):
            promotion = submit == tier.submit_load
            slot_ids = np.arange(count)[some]
            submit(TransferJob(number, keys[some], slot_ids, promotion, ReqContext(req_id=str(number))))
        tier.drain_jobs()
        taken = time.perf_counter() - begin
        assert all(job.success for job in tier.get_finished_jobs())
        return taken

    def moved(tier: Any) -> Iterator[float]:
        try:
            # Threads and buffers of a server are new only once.
            for submit in (tier.submit_store, tier.submit_load):
                timed(tier, submit, others, jobs[: len(jobs) // 2])
            for submit in (tier.submit_store, tier.submit_load):
                yield timed(tier, submit, keys, jobs)
        finally:
            tier.shutdown()

    def theirs(root: Path) -> Iterator[float]:
        return moved(FileSystemTierManager(_spec(), slots, "fs", root_dir=str(root)))

    def ours(root: Path) -> Iterator[float]:
        # There is no model here to take a fingerprint of.
        facts = {
            "fingerprint": mock.Mock(return_value="bench"),
            "weights_may_change": mock.Mock(return_value=False),
        }
        with mock.patch.multiple(our_tier, **facts):
            tier = our_tier.WarmsetTier(_spec(), slots, "WarmsetTier", store=f"file://{root}")
        return moved(tier)

    return _compared(folder, theirs, ours)


def _spec() -> Any:
    """What vLLM tells a tier of its model and layout; neither tier's speed depends on it."""
    from vllm.v1.kv_offload.base import OffloadingKVEventsConfig
    from vllm.v1.kv_offload.config import (
        OffloadingCacheConfig,
        OffloadingConfig,
        OffloadingModelConfig,
        OffloadingParallelConfig,
    )

    config = OffloadingConfig(
        groups=(),
        worker_kv_bytes_per_block=0,
        enable_kv_cache_events=False,
        extra_config={},
        engine_id="bench",
        model=OffloadingModelConfig(name="bench", dtype="bfloat16"),
        cache=OffloadingCacheConfig(tokens_per_hash=16, blocks_per_chunk=1),
        parallel=OffloadingParallelConfig(
            rank=0,
            world_size=1,
            tp_size=1,
            pp_size=1,
            pcp_size=1,
            dcp_size=1,
            data_parallel_index=0,
            data_parallel_size=1,
            data_parallel_rank_local=None,
            is_parallelism_agnostic=False,
        ),
        replicated_layout=False,
    )
    events = OffloadingKVEventsConfig(enable_kv_cache_events=False, self_describing_kv_events=False)
    return SimpleNamespace(config=config, blocks_per_chunk=1, kv_events_config=events)


def _objects(folder: Path, size: int) -> Pairs:
    """Put and get through obstore alone, and through our store with verification."""
    import obstore
    from obstore.store import from_url

    from warmset.tiers.objects import ObjectStore
    from warmset.tiers.verify import VerifyingStore

    endpoint, bucket = os.environ["AWS_ENDPOINT_URL"], os.environ.get("BENCH_BUCKET", "bench")
    count = TOTAL_BYTES // size
    _, rows = _slots(count, size)
    url = f"s3://{bucket}/{os.getpid()}"
    bare = from_url(url, config={"endpoint": endpoint}, client_options={"allow_http": True})
    store = VerifyingStore(ObjectStore(url, endpoint=endpoint, timeout_seconds=60), fingerprint="bench")

    def both(put: Callable[[int], Any], get: Callable[[int], Any]) -> Iterator[float]:
        with ThreadPoolExecutor(THREADS) as threads:
            for action in (put, get):
                begin = time.perf_counter()
                list(threads.map(action, range(count)))
                yield time.perf_counter() - begin

    def theirs(root: Path) -> Iterator[float]:
        def get(i: int) -> None:
            data = memoryview(obstore.get(bare, f"a/{i}").bytes())
            rows[i * size : (i + 1) * size] = data

        return both(
            lambda i: obstore.put(
                bare, f"a/{i}", bytes(rows[i * size : (i + 1) * size]), use_multipart=False
            ),
            get,
        )

    def ours(root: Path) -> Iterator[float]:
        return both(
            lambda i: store.put(f"b/{i}", rows[i * size : (i + 1) * size]),
            lambda i: store.get(f"b/{i}", rows[i * size : (i + 1) * size]),
        )

    return _compared(folder, theirs, ours)


def _compared(
    folder: Path, theirs: Callable[[Path], Iterator[float]], ours: Callable[[Path], Iterator[float]]
) -> Pairs:
    pairs: Pairs = {"store": [], "load": []}
    for turn in range(PAIRS):
        order = (theirs, ours) if turn % 2 else (ours, theirs)
        taken = {}
        for run in order:
            root = folder / f"{run.__name__}-{turn}"
            root.mkdir(parents=True)
            taken[run] = list(run(root))
        for what, pair in zip(pairs, zip(taken[theirs], taken[ours], strict=True), strict=True):
            pairs[what].append(pair)
    return pairs


def _slots(count: int, size: int) -> tuple[memoryview, memoryview]:
    """Page-aligned random rows, as the host tier's, and the same as flat bytes."""
    from mmap import mmap

    pages = memoryview(mmap(-1, count * size))
    noise = os.urandom(1 << 20)
    for start in range(0, pages.nbytes, len(noise)):
        pages[start : start + len(noise)] = noise[: pages.nbytes - start]
    return pages.cast("B", (count, size)), pages


if __name__ == "__main__":
    for row in main():
        print(*row, flush=True)
