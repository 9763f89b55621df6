"""Stores below RAM side by side: this tier against vLLM's own file tier, its object store against bare obstore.

    BENCH_FOLDER=/mnt/nvme python -m benchmarks tiers     # where vLLM is installed

With AWS_ENDPOINT_URL set, an object store there is measured too, in the bucket BENCH_BUCKET.

Each block size is stored and loaded by both, in turns, several times. The median over pairs of turns counts: the
two of a pair run one after the other, in changing order, so that whatever else the machine does meets both. Files go
through direct I/O in both, so the page cache serves neither. Verification is on. BENCH_TURNS is how many pairs.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

TURNS = int(os.environ.get("BENCH_TURNS", "9"))
TOTAL_BYTES = 256 << 20
SIZES = (512 << 10, 2 << 20, 8 << 20)
THREADS = 4


def main() -> Iterator[tuple[str, float, str]]:
    """Rates of both, and ours over theirs, by block size; without vLLM the disk is left out."""
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("BENCH_FOLDER")))
    kinds: list[tuple[str, Callable[[int], dict[str, float]]]] = []
    if find_spec("vllm"):
        kinds.append(("disk", lambda size: _disk(folder, size)))
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        kinds.append(("object store", lambda size: _objects(endpoint, size)))
    try:
        for kind, measure in kinds:
            for size in SIZES:
                for name, value in measure(size).items():
                    unit = "ours ÷ theirs" if name.endswith("ratio") else "B/s"
                    yield f"{kind}, {size >> 10} KiB: {name}", value, unit
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _disk(folder: Path, size: int) -> dict[str, float]:
    """Loads and stores of the file tier's own functions in its own threads, and of ours."""
    from vllm.v1.kv_offload.tiering.fs.io import batch_load_block, batch_store_block
    from vllm.v1.kv_offload.tiering.fs.thread_pool import DualQueueThreadPool

    from warmset.tiers.disk import DiskStore
    from warmset.tiers.transfer import Transfers
    from warmset.tiers.verify import VerifyingStore

    count = TOTAL_BYTES // size
    slots, rows = _slots(count, size)
    # One job per request of eight blocks, as the connector makes them.
    jobs = [list(range(start, min(start + 8, count))) for start in range(0, count, 8)]

    def theirs(root: Path) -> Iterator[float]:
        pool = DualQueueThreadPool(THREADS, THREADS, thread_name_prefix="fs")
        try:
            for function, enqueue in (
                (batch_store_block, pool.enqueue_store),
                (batch_load_block, pool.enqueue_load),
            ):
                begin = time.perf_counter()
                for number, job in enumerate(jobs):
                    paths = [str(root / f"{i % 16:x}" / f"{i}.bin") for i in job]
                    offsets = [i * size for i in job]
                    enqueue(number, 1, [lambda f=function, p=paths, o=offsets: f(p, slots, o, size, True)])
                pool.wait_idle()
                yield time.perf_counter() - begin
                assert all(good for _, good, _ in pool.get_finished())
        finally:
            pool.shutdown(wait=True)

    def ours(root: Path) -> Iterator[float]:
        transfers = Transfers(
            VerifyingStore(DiskStore(root), fingerprint="bench"),
            slots,
            load_deadline_seconds=600,
            store_deadline_seconds=600,
            load_threads=THREADS,
            store_threads=THREADS,
            queued_store_bytes=1 << 40,
        )
        try:
            for submit in (transfers.store, transfers.load):
                begin = time.perf_counter()
                for number, job in enumerate(jobs):
                    submit(number, [f"kv/{i % 16:x}/{i}" for i in job], job)
                transfers.drain()
                yield time.perf_counter() - begin
                assert all(outcome.success for outcome in transfers.finished())
        finally:
            transfers.shutdown()

    return _compared(folder, theirs, ours, rows, "fs")


def _objects(endpoint: str, size: int) -> dict[str, float]:
    """Put and get through obstore alone, and through our store with verification."""
    from concurrent.futures import ThreadPoolExecutor

    import obstore
    from obstore.store import from_url

    from warmset.tiers.objects import ObjectStore
    from warmset.tiers.verify import VerifyingStore

    bucket = os.environ.get("BENCH_BUCKET", "bench")
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

    return _compared(Path(tempfile.gettempdir()), theirs, ours, rows, "obstore")


def _compared(
    folder: Path,
    theirs: Callable[[Path], Iterator[float]],
    ours: Callable[[Path], Iterator[float]],
    rows: memoryview,
    name: str,
) -> dict[str, float]:
    taken: dict[str, list[list[float]]] = {name: [], "warmset": []}
    for turn in range(TURNS):
        order = ((name, theirs), ("warmset", ours))
        for who, run in order if turn % 2 else reversed(order):
            root = folder / f"{who}-{turn}"
            with _fresh(root):
                taken[who].append(list(run(root)))
    found: dict[str, float] = {}
    for index, what in enumerate(("store", "load")):
        pairs = [(a[index], b[index]) for a, b in zip(taken[name], taken["warmset"], strict=True)]
        for who, times in zip((name, "warmset"), zip(*pairs, strict=True), strict=True):
            found[f"{who}_{what}_bytes_per_second"] = round(rows.nbytes / median(times))
        found[f"{what}_ratio"] = round(median(a / b for a, b in pairs), 3)
    return found


def _slots(count: int, size: int) -> tuple[memoryview, memoryview]:
    """Page-aligned random rows, as the host tier's, and the same as flat bytes."""
    from mmap import mmap

    pages = memoryview(mmap(-1, count * size))
    noise = os.urandom(1 << 20)
    for start in range(0, pages.nbytes, len(noise)):
        pages[start : start + len(noise)] = noise[: pages.nbytes - start]
    return pages.cast("B", (count, size)), pages


@contextmanager
def _fresh(root: Path) -> Iterator[None]:
    root.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    for row in main():
        print(*row, flush=True)
