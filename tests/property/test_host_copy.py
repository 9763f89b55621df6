"""The host copier against one memory copy per page."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmset.vllm.host_copy import CopyError, Layer, copy, runs, strips


@st.composite
def jobs(draw):
    layers = draw(st.integers(1, 4))
    blocks_per_chunk = draw(st.sampled_from([1, 2, 4, 5]))
    blocks, chunks = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    slot = draw(st.integers(0, blocks_per_chunk - 1))
    most = min(blocks, chunks * blocks_per_chunk - slot)
    count = draw(st.integers(1, most))
    width = -(-(slot + count) // blocks_per_chunk)
    one_way = draw(st.sampled_from(["up", "down", "random"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def ids(bound, number):
        if one_way == "random":
            return rng.permutation(bound)[:number]
        run = np.arange(number) + rng.integers(0, bound - number + 1)
        return run if one_way == "up" else run[::-1]

    return {
        "layers": layers,
        "page": draw(st.sampled_from([1, 3, 8])),
        "padding": draw(st.integers(0, 2)),
        "spare": draw(st.integers(0, 5)),
        "one_allocation": draw(st.booleans()),
        "blocks_per_chunk": blocks_per_chunk,
        "blocks": (blocks, ids(blocks, count).astype(np.int64)),
        "chunks": (chunks, ids(chunks, width).astype(np.int64)),
        "slot": slot,
        "rng": rng,
    }


def memories(job):
    """Layers over two random memories, as vLLM lays them out."""
    rng, page, layers = job["rng"], job["page"] + job["padding"], job["layers"]
    blocks, chunks, width = job["blocks"][0], job["chunks"][0], page * job["blocks_per_chunk"]
    device = rng.integers(-128, 127, (layers, blocks, page)).astype(np.int8)
    host = rng.integers(-128, 127, (chunks, layers * width + job["spare"])).astype(np.int8)
    views = []
    for layer in range(layers):
        pages = device[layer] if job["one_allocation"] else device[layer].copy()
        rows = host[:, layer * width : (layer + 1) * width]
        views.append(Layer(pages, rows, job["page"], (0 if job["one_allocation"] else layer, 0)))
    return views


def page_by_page(job, layers, *, to_host):
    """The same copy, one page at a time."""
    for i, block in enumerate(job["blocks"][1]):
        position = job["slot"] + i
        chunk = job["chunks"][1][position // job["blocks_per_chunk"]]
        for layer in layers:
            page = layer.device.shape[1]
            start = position % job["blocks_per_chunk"] * page
            there = layer.host[chunk, start : start + layer.payload_bytes]
            here = layer.device[block, : layer.payload_bytes]
            if to_host:
                there[...] = here
            else:
                here[...] = there


@settings(max_examples=150, deadline=None)
@given(jobs(), st.booleans())
def test_equals_copying_page_by_page(job, to_host):
    layers = memories(job)
    expected = [Layer(x.device.copy(), x.host.copy(), x.payload_bytes, x.allocations) for x in layers]
    page_by_page(job, expected, to_host=to_host)
    for run in runs(job["blocks"][1], job["chunks"][1], job["slot"], job["blocks_per_chunk"]):
        for strip in strips(layers, job["blocks_per_chunk"]):
            copy(strip, run, to_host=to_host)
    for got, want in zip(layers, expected, strict=True):
        np.testing.assert_array_equal(got.device, want.device)
        np.testing.assert_array_equal(got.host, want.host)


def test_layers_of_one_allocation_are_copied_together():
    device, host = np.zeros((3, 8, 16), np.int8), np.zeros((5, 3 * 32), np.int8)
    layers = [Layer(device[i], host[:, i * 32 : (i + 1) * 32], 16, (0, 0)) for i in range(3)]
    (strip,) = strips(layers, blocks_per_chunk=2)
    assert strip.device.shape == (3, 8, 16)
    assert strip.host.shape == (3, 5, 2, 16)


def test_blocks_in_falling_order_are_copied_from_the_lowest_up():
    assert list(runs(np.array([5, 4, 3]), np.array([0, 1, 2]), 0, 1)) == [
        (slice(3, 6, 1), slice(2, None, -1), 0)
    ]


def test_a_run_ends_where_the_step_changes_and_where_a_chunk_does():
    found = list(runs(np.array([2, 1, 0, 7, 9, 11]), np.array([4, 5, 8]), 0, 2))
    assert found == [
        (slice(0, 14, 7), 5, slice(0, 2, 1)),
        (slice(2, 0, -1), 4, slice(0, 2, 1)),
        (slice(9, 13, 2), 8, slice(0, 2, 1)),
    ]


def test_chunks_that_do_not_hold_the_blocks_are_refused():
    with pytest.raises(CopyError, match="do not fill"):
        list(runs(np.arange(2), np.arange(3), 1, 2))
