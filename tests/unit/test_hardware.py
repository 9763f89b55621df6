"""The accelerator, link and storage catalogues hold facts, one source per row."""

import pytest

from warmset.errors import UnknownName
from warmset.hardware import accelerator, accelerators, link, links, storage, storages
from warmset.units import GB, GIB, MIB

ROWS = accelerators()


def test_catalogue_is_large_enough_and_names_are_unique() -> None:
    names = [n for a in ROWS for n in (a.name, *a.aliases)]
    assert len(ROWS) >= 30
    assert len(set(names)) == len(names)
    others = [n for s in storages() for n in (s.name, *s.aliases)]
    assert len(set(others)) == len(others)
    assert not set(names) & set(others)


@pytest.mark.parametrize("row", ROWS, ids=lambda a: a.name)
def test_figures_are_in_range(row) -> None:  # type: ignore[no-untyped-def]
    assert 14 * GIB < row.memory_bytes < 320 * GIB
    assert 150 * GB < row.memory_bandwidth_bytes_per_second < 10_000 * GB
    assert 15e12 < row.bf16_flops < 3e15
    assert row.source
    # Dense fp8 is at most twice dense bf16: a larger ratio means that a sparse rate slipped in.
    if row.fp8_flops is not None:
        assert 0.99 <= row.fp8_flops / row.bf16_flops <= 2.05
    # Ridge point in FLOPs per byte: today's parts lie between 30 (H20 141 GB) and 650 (TPU v6e).
    assert 30 <= row.bf16_flops / row.memory_bandwidth_bytes_per_second <= 650
    assert row.host_link.name in links()


def test_dense_rates_against_published_ones() -> None:
    # NVIDIA's data sheets state the sparse rate; these are the dense ones that papers and MFU tables use.
    dense = {"h100-sxm": 989, "a100-80gb-sxm": 312, "b200": 2250, "l4": 121, "mi300x": 1307, "rtx-4090": 165}
    for name, tflops in dense.items():
        assert accelerator(name).bf16_flops / 1e12 == pytest.approx(tflops, rel=0.01)


def test_memory_is_what_the_driver_reports() -> None:
    h100 = accelerator("h100-80gb")
    assert (h100.memory_bytes, h100.memory_basis) == (81_559 * MIB, "driver")
    assert accelerator("mi300x").memory_bytes == 206_141_652_992
    nominal = accelerator("gaudi3")
    assert (nominal.memory_bytes, nominal.memory_basis) == (128 * GB, "nominal")


@pytest.mark.parametrize("name", ["H100", "h100-sxm5", "NVIDIA H100_80GB", "h100-80gb-hbm3", " h100 "])
def test_spellings_of_one_device(name: str) -> None:
    assert accelerator(name).name == "h100-sxm"


def test_c2c_parts_have_a_fast_host_link() -> None:
    assert accelerator("gh200").host_link.usable_bytes_per_second > 300 * GB
    assert accelerator("gb200").host_link.usable_bytes_per_second > 150 * GB
    assert accelerator("mi300a").host_link.unified


def test_links_and_storage_are_plausible() -> None:
    for row in links().values():
        assert row.unified or 0.7 < row.usable_bytes_per_second / row.raw_bytes_per_second < 0.95
    for medium in storages():
        assert medium.read_bytes_per_second <= medium.raw_read_bytes_per_second
        assert 0 < medium.write_bytes_per_second <= medium.read_bytes_per_second
    assert storage("100GbE").kind == "object"
    assert storage("nvme").kind == "disk"


@pytest.mark.parametrize("find", [accelerator, storage, link])
def test_unknown_names_get_suggestions(find) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownName) as caught:
        find("h1000-sxm")
    assert caught.value.hint
    with pytest.raises(UnknownName, match="`h100-sxn`") as caught:
        accelerator("h100-sxn")
    assert "h100-sxm" in caught.value.suggestions
