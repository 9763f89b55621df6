"""Copies KV blocks between a cache in host memory and the host tier's rows.

The device cache of a CPU build is host memory too, so a store or a load is a memory copy. Layers that
lie at one stride in both memories are copied by one call per run of blocks, so that the cost per call
vanishes beside the bytes, and numpy gives up Python's lock while the bytes move.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Bytes = NDArray[np.int8]


class CopyError(RuntimeError):
    """A copy that was asked for cannot be done; nothing that depends on it may be used."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's pages on both sides.

    Attributes:
        device: int8, (blocks, page bytes).
        host: int8, (chunks, blocks per chunk × page bytes); rows may be strided.
        payload_bytes: bytes of a page that hold data; the rest is padding and is not copied.
        allocations: identity of the memory behind `device` and `host`; layers of different
            allocations are never addressed together.
    """

    device: Bytes
    host: Bytes
    payload_bytes: int
    allocations: tuple[Hashable, Hashable]


@dataclass(frozen=True, slots=True)
class Strip:
    """Layers that one call copies: `device` is (layers, blocks, bytes), `host` (layers, chunks, slots, bytes)."""

    device: Bytes
    host: Bytes


# Where a run of blocks lies: index of the device blocks, of the chunks, and of the slots in them. Plain
# integers for a single block, because every object made here is made once per block.
Index = int | slice
Run = tuple[Index, Index, Index]


def strips(layers: Sequence[Layer], blocks_per_chunk: int) -> tuple[Strip, ...]:
    """Group layers into as few strips as their addresses allow, in the order given."""
    groups: list[list[Layer]] = []
    for layer in layers:
        if groups and _continues(groups[-1], layer):
            groups[-1].append(layer)
        else:
            groups.append([layer])
    return tuple(_strip(group, blocks_per_chunk) for group in groups)


def runs(
    blocks: NDArray[np.int64], chunks: NDArray[np.int64], first_slot: int, blocks_per_chunk: int
) -> Iterator[Run]:
    """Match device blocks, in order, with the slots of `chunks`, in order, from `first_slot` of the first.

    Chunks come in the order of their first device block: neighbours in the pool share page tables, whose
    misses would cost as much as a fifth of the copy.
    Raises CopyError when the chunks do not hold exactly these blocks.
    """
    count = len(blocks)
    if -(-(first_slot + count) // blocks_per_chunk) != len(chunks):
        raise CopyError(
            f"{count} blocks from slot {first_slot} do not fill {len(chunks)} chunks "
            f"of {blocks_per_chunk} blocks"
        )
    positions = np.arange(first_slot, first_slot + count)
    nth = positions // blocks_per_chunk
    firsts = blocks[np.maximum(np.arange(len(chunks)) * blocks_per_chunk - first_slot, 0)]
    order = np.argsort(firsts[nth], kind="stable")
    places = np.stack([blocks, chunks[nth], positions % blocks_per_chunk], axis=1)[order]
    rows: list[list[int]] = places.tolist()
    # Blocks follow each other where the steps are equal and either the chunks move on or the slots do.
    steps = np.diff(places, axis=0)
    follows: list[bool] = ((steps[:, 0] != 0) & ((steps[:, 1] == 0) != (steps[:, 2] == 0))).tolist()
    equal: list[bool] = (steps[1:] == steps[:-1]).all(axis=1).tolist()
    start = 0
    while start < count:
        last = start
        if start < count - 1 and follows[start]:
            last += 1
            while last < count - 1 and equal[last - 1]:
                last += 1
        block, chunk, slot = rows[start]
        if last == start:
            yield block, chunk, slot
        else:
            end_block, end_chunk, end_slot = rows[last]
            n = last - start
            yield _index(block, end_block, n), _index(chunk, end_chunk, n), _index(slot, end_slot, n)
        start = last + 1


def copy(strip: Strip, run: Run, *, to_host: bool) -> None:
    """Copy one run of one strip; the ids must lie in the bounds of both memories."""
    blocks, chunks, slots = run
    if to_host:
        strip.host[:, chunks, slots] = strip.device[:, blocks]
    else:
        strip.device[:, blocks] = strip.host[:, chunks, slots]


def _index(first: int, last: int, steps: int) -> Index:
    if first == last:
        return first
    step = (last - first) // steps
    stop = last + step
    return slice(first, stop if stop >= 0 else None, step)


def _continues(group: list[Layer], layer: Layer) -> bool:
    head, tail = group[0], group[-1]
    if _shape(layer) != _shape(head):
        return False
    step = _distance(tail, layer)
    return step > (0, 0) if len(group) == 1 else step == _distance(head, group[1])


def _shape(layer: Layer) -> tuple[object, ...]:
    device, host = layer.device, layer.host
    return (
        device.shape,
        device.strides,
        host.shape,
        host.strides,
        layer.payload_bytes,
        layer.allocations,
    )


def _strip(group: list[Layer], blocks_per_chunk: int) -> Strip:
    head, size = group[0], group[0].payload_bytes
    device_step, host_step = _distance(head, group[1]) if len(group) > 1 else (0, 0)
    blocks, page = head.device.shape
    return Strip(
        as_strided(head.device, (len(group), blocks, size), (device_step, head.device.strides[0], 1)),
        as_strided(
            head.host,
            (len(group), len(head.host), blocks_per_chunk, size),
            (host_step, head.host.strides[0], page, 1),
        ),
    )


def _distance(first: Layer, second: Layer) -> tuple[int, int]:
    return (
        _address(second.device) - _address(first.device),
        _address(second.host) - _address(first.host),
    )


def _address(array: Bytes) -> int:
    return int(array.__array_interface__["data"][0])
