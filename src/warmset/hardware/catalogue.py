"""Reads the data files of this room, and finds a row by any of its names."""

import csv
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, cast

from warmset.errors import UnknownName
from warmset.hardware.record import Accelerator, Link, Storage
from warmset.units import GB, MIB


def accelerator(name: str) -> Accelerator:
    """The accelerator called `name` (or an alias; case, blanks and vendor prefixes do not matter).

    Raises UnknownName with suggestions.
    """
    found = _accelerator_index().get(_key(name))
    if found is None:
        raise UnknownName("accelerator", name, _accelerator_index(), hint=f"known: {_first_names()}")
    return found


def storage(name: str) -> Storage:
    """The storage medium called `name` (or an alias). Raises UnknownName with suggestions."""
    found = _storage_index().get(_key(name))
    if found is None:
        known = ", ".join(s.name for s in storages())
        raise UnknownName("storage", name, _storage_index(), hint=f"known: {known}")
    return found


def link(name: str) -> Link:
    """The host link called `name`. Raises UnknownName with suggestions."""
    found = links().get(_key(name))
    if found is None:
        raise UnknownName("host link", name, links(), hint=f"known: {', '.join(links())}")
    return found


@cache
def links() -> dict[str, Link]:
    """All host links by name."""
    return {
        row["name"]: Link(
            row["name"],
            row["label"],
            _rate(row["raw_gb_s"]),
            _rate(row["usable_gb_s"]),
            row["source"],
            row["note"],
        )
        for row in _rows("links.csv")
    }


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """All accelerators, in the order of the data file."""
    return tuple(_accelerator(row) for row in _rows("accelerators.csv"))


@cache
def storages() -> tuple[Storage, ...]:
    """All storage media, in the order of the data file."""
    return tuple(
        Storage(
            name=row["name"],
            kind=cast(Any, row["kind"]),
            label=row["label"],
            aliases=tuple(row["aliases"].split()),
            raw_read_bytes_per_second=_rate(row["raw_read_gb_s"]),
            read_bytes_per_second=_rate(row["usable_read_gb_s"]),
            write_bytes_per_second=_rate(row["usable_write_gb_s"]),
            source=row["source"],
            note=row["note"],
        )
        for row in _rows("storage.csv")
    )


def _accelerator(row: dict[str, str]) -> Accelerator:
    driver = row["driver_mib"]
    return Accelerator(
        name=row["name"],
        label=row["label"],
        vendor=row["vendor"],
        aliases=tuple(row["aliases"].split()),
        memory_bytes=int(driver) * MIB if driver else round(float(row["memory_gb"]) * GB),
        memory_basis="driver" if driver else "nominal",
        memory_bandwidth_bytes_per_second=_rate(row["bandwidth_gb_s"]),
        bf16_flops=float(row["bf16_tflops"]) * 1e12,
        fp8_flops=float(row["fp8_tflops"]) * 1e12 if row["fp8_tflops"] else None,
        host_link=links()[row["host_link"]],
        source=row["source"],
        note=row["note"],
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = (files("warmset.hardware") / name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


def _rate(gb_per_second: str) -> int:
    return round(float(gb_per_second) * GB)


def _key(name: str) -> str:
    key = "-".join(name.strip().lower().replace("_", "-").split())
    for prefix in ("nvidia-", "geforce-", "tesla-", "amd-", "intel-", "google-"):
        key = key.removeprefix(prefix)
    return key


@cache
def _accelerator_index() -> dict[str, Accelerator]:
    return {_key(name): a for a in accelerators() for name in (a.name, *a.aliases)}


@cache
def _storage_index() -> dict[str, Storage]:
    return {_key(name): s for s in storages() for name in (s.name, *s.aliases)}


def _first_names() -> str:
    return ", ".join(a.name for a in accelerators())
