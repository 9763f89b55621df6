"""The worker that moves KV blocks between a device cache in host memory and the host tier."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from vllm.v1.kv_offload.base import (
    BlockIDsLoadStoreSpec,
    CanonicalKVCaches,
    GPULoadStoreSpec,
    LoadStoreSpec,
    OffloadingWorker,
    TransferResult,
)
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion

from warmset.vllm.host_copy import CopyError, Layer, Strip, copy, runs, strips

# Handing a copy to another thread costs more than this many bytes.
_INLINE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Job:
    job_id: int
    device: GPULoadStoreSpec
    host: BlockIDsLoadStoreSpec
    to_host: bool


class HostCopyWorker(OffloadingWorker):  # type: ignore[misc]
    """Stores and loads by copying memory, in the order of submission, large jobs off the model's thread.

    A job that cannot be copied in full is never reported as finished: the next call of any method
    raises CopyError, which ends the engine before a request can read what is missing.
    """

    def __init__(
        self, kv_caches: CanonicalKVCaches, blocks_per_chunk: int, chunks: int, region: SharedOffloadRegion
    ) -> None:
        self._region: SharedOffloadRegion | None = region
        self._blocks_per_chunk = blocks_per_chunk
        self._chunks = chunks
        self._blocks = int(kv_caches.tensors[0].tensor.shape[0])
        self._strips = _strips_per_group(kv_caches, blocks_per_chunk, region)
        self._bytes_per_block = tuple(
            sum(strip.device.shape[0] * strip.device.shape[2] for strip in group) for group in self._strips
        )
        self._changed = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._open: set[int] = set()
        self._results: list[TransferResult] = []
        self._failure: Exception | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="warmset-copy", daemon=True)
        self._thread.start()

    def submit_store(self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: LoadStoreSpec) -> bool:
        """Copy device blocks into the tier's chunks."""
        return self._submit(job_id, src_spec, dst_spec, to_host=True)

    def submit_load(self, job_id: int, src_spec: LoadStoreSpec, dst_spec: GPULoadStoreSpec) -> bool:
        """Copy the tier's chunks into device blocks."""
        return self._submit(job_id, dst_spec, src_spec, to_host=False)

    def get_finished(self) -> list[TransferResult]:
        """Jobs that finished since the last call, with bytes copied and seconds of copying."""
        with self._changed:
            self._raise_failure()
            finished, self._results = self._results, []
        return finished

    def wait(self, job_ids: set[int]) -> None:
        """Return when these jobs have been copied."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or not self._open & job_ids)
            self._raise_failure()

    def shutdown(self) -> None:
        """Finish what was submitted, stop the thread and give the tier's memory back."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        # Views of the region must go before its mapping can be closed.
        self._strips = ()
        if self._region is not None:
            self._region.cleanup()
            self._region = None

    def _submit(self, job_id: int, device: GPULoadStoreSpec, host: LoadStoreSpec, *, to_host: bool) -> bool:
        if not isinstance(device, GPULoadStoreSpec) or not isinstance(host, BlockIDsLoadStoreSpec):
            raise CopyError(f"cannot copy between {type(device).__name__} and {type(host).__name__}")
        job = _Job(job_id, device, host, to_host)
        size = sum(
            blocks * size for blocks, size in zip(device.group_sizes, self._bytes_per_block, strict=True)
        )
        with self._changed:
            self._raise_failure()
            if self._closing:
                raise CopyError("the worker has been shut down")
            inline = size <= _INLINE_BYTES and not self._open
            self._open.add(job_id)
            if not inline:
                self._queue.append(job)
                self._changed.notify_all()
        if inline:
            self._run(job)
        return True

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing)
                if not self._queue or self._failure is not None:
                    return
                job = self._queue.popleft()
            self._run(job)

    def _run(self, job: _Job) -> None:
        started = time.perf_counter()
        try:
            size = self._copy(job)
        except Exception as error:  # noqa: BLE001  # raised again to the engine by its next call
            with self._changed:
                self._failure = error
                self._changed.notify_all()
            return
        result = TransferResult(
            job_id=job.job_id,
            success=True,
            transfer_size=size,
            transfer_time=time.perf_counter() - started,
        )
        with self._changed:
            self._open.discard(job.job_id)
            self._results.append(result)
            self._changed.notify_all()

    def _copy(self, job: _Job) -> int:
        blocks = _checked_ids(job.device.block_ids, self._blocks, "device block")
        chunks = _checked_ids(job.host.block_ids, self._chunks, "chunk")
        block_at = chunk_at = size = 0
        for group, group_bytes, count, first in zip(
            self._strips,
            self._bytes_per_block,
            job.device.group_sizes,
            job.device.block_indices,
            strict=True,
        ):
            if count == 0:
                continue
            slot = first % self._blocks_per_chunk
            width = -(-(slot + count) // self._blocks_per_chunk)
            for run in runs(
                blocks[block_at : block_at + count],
                chunks[chunk_at : chunk_at + width],
                slot,
                self._blocks_per_chunk,
            ):
                for strip in group:
                    copy(strip, run, to_host=job.to_host)
            size += count * group_bytes
            block_at, chunk_at = block_at + count, chunk_at + width
        if block_at != len(blocks) or chunk_at != len(chunks):
            raise CopyError(
                f"job {job.job_id} names {len(blocks)} blocks and {len(chunks)} chunks, "
                f"but its groups cover {block_at} and {chunk_at}"
            )
        return size

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise CopyError(f"a KV copy failed: {self._failure}") from self._failure


def _strips_per_group(
    kv_caches: CanonicalKVCaches, blocks_per_chunk: int, region: SharedOffloadRegion
) -> tuple[tuple[Strip, ...], ...]:
    views = []
    for cache in kv_caches.tensors:
        if cache.tensor.device.type != "cpu":
            raise CopyError(f"the KV cache lies on `{cache.tensor.device}`, not in host memory")
        # A tensor's place in the tier's rows follows from the order of these calls.
        views.append(
            (
                cache.tensor.view(torch.int8).view((-1, cache.page_size_bytes)),
                region.create_next_worker_view(cache.page_size_bytes * blocks_per_chunk),
            )
        )
    groups: list[tuple[Strip, ...]] = []
    for refs in kv_caches.group_data_refs:
        layers = [
            Layer(
                device=views[ref.tensor_idx][0].numpy(),
                host=views[ref.tensor_idx][1].numpy(),
                payload_bytes=ref.page_size_bytes,
                allocations=(views[ref.tensor_idx][0].untyped_storage().data_ptr(), id(region)),
            )
            for ref in refs
        ]
        groups.append(strips(layers, blocks_per_chunk))
    return tuple(groups)


def _checked_ids(ids: Sequence[int] | NDArray[np.int32], bound: int, what: str) -> NDArray[np.int64]:
    array = np.asarray(ids, dtype=np.int64)
    if array.ndim != 1 or (len(array) and (array.min() < 0 or array.max() >= bound)):
        raise CopyError(f"{what} ids {array} are not in 0 … {bound - 1}")
    return array
