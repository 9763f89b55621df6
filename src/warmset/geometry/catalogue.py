"""The bundled models: names, aliases, parameter counts, and the part of config.json that shapes the KV cache.

`models.jsonl` holds one model per line. Its `config` goes through the same reader as a config.json from disk,
so there is one way to compute and nothing to keep in step.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One model.

    Attributes:
        name: our short name, such as `llama-3.1-8b`.
        aliases: other names, Hub ids among them.
        parameters: of the whole checkpoint without speculative (MTP) layers, as published or counted.
        active_parameters: used for one token where that differs (mixture of experts), else None.
        native_dtype: the type in which the model computes, such as `bfloat16`.
        weight_format: the format of the stored weights where they are quantised (`fp8`, `mxfp4`), else None.
        weight_bytes: size of quantised weights; None means parameters × the size of `native_dtype`.
        source: where the configuration was published.
        config: the keys of its config.json that matter.
    """

    name: str
    aliases: tuple[str, ...]
    parameters: int
    active_parameters: int | None
    native_dtype: str
    weight_format: str | None
    weight_bytes: int | None
    source: str
    config: Mapping[str, Any]


def find(name: str) -> CatalogueEntry | None:
    """The model called `name` (short name, alias or Hub id, in any case), or None."""
    return _index().get(name.strip().lower())


def hub_id(name: str) -> str:
    """The Hub id to serve for `name`: that of exactly this model, whatever else shares its row and its geometry.

    `name` itself where it is an id, a path or unknown, and where the catalogue has no id that ends in it: a row's
    other models have the same KV cache, not the same weights.
    """
    entry = find(name)
    if entry is None or "/" in name:
        return name
    return next((i for i in _hub_ids(entry) if _tail(i) == name.strip().lower()), name)


def ids_to_choose(name: str) -> tuple[str, ...] | None:
    """Hub ids with all the words of a short name that has no id of its own; None where there is no question."""
    entry = find(name)
    if entry is None or "/" in hub_id(name):
        return None
    words = set(name.strip().lower().split("-"))
    return tuple(i for i in _hub_ids(entry) if words <= set(_tail(i).split("-")))


def _hub_ids(entry: CatalogueEntry) -> tuple[str, ...]:
    return tuple(alias for alias in entry.aliases if "/" in alias)


def _tail(hub_id: str) -> str:
    return hub_id.rpartition("/")[2].lower()


def names() -> tuple[str, ...]:
    """Every short name, alias and Hub id, in lower case: what "did you mean" chooses from."""
    return tuple(_index())


@cache
def entries() -> tuple[CatalogueEntry, ...]:
    """All models, in the order of the data file."""
    lines = (files("warmset.geometry") / "models.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(_entry(json.loads(line)) for line in lines)


def _entry(row: dict[str, Any]) -> CatalogueEntry:
    return CatalogueEntry(**{**row, "aliases": tuple(row["aliases"])})


@cache
def _index() -> dict[str, CatalogueEntry]:
    return {name.lower(): entry for entry in entries() for name in (entry.name, *entry.aliases)}
