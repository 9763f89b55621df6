"""What a model's name tells about its KV cache; its geometry where the catalogue knows the model."""

import csv
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from warmset.errors import WarmsetError

# Layers whose KV blocks are not all alike: the hybrid KV-cache manager is needed.
HYBRID = frozenset(("state", "window", "compressed"))


@dataclass(frozen=True, slots=True)
class Model:
    """A model as far as the checks need it.

    `kind` is `state` (recurrent layers beside attention), `window`, `compressed`, `mla` or `full`; None where the
    name tells nothing.
    """

    name: str
    kind: str | None
    tp: int = 1
    pp: int = 1
    kv_dtype: str = "auto"

    @property
    def hybrid(self) -> bool:
        """Whether its layers form several KV-cache groups."""
        return self.kind in HYBRID

    @property
    def bytes_per_token(self) -> float | None:
        """What one token costs over all ranks, copies included; None where the model is not in the catalogue.

        Only of models whose cost is the same for every token: a window or a state has no such figure.
        """
        return None if self.hybrid else _bytes_per_token(self.name, self.tp, self.pp, self.kv_dtype)


def kind_of(name: str) -> str | None:
    """The kind of a model by its name, or None."""
    plain = name.lower()
    return next((kind for pattern, kind in _patterns() if pattern.search(plain)), None)


@cache
def describe(name: str, tp: int, pp: int, kv_dtype: str) -> Model:
    """A model by name; paths and unknown names give what the name alone tells."""
    from warmset.geometry import catalogue

    kind = kind_of(name)
    if kind is None and name and (catalogue.find(name) or catalogue.find(name.rsplit("/", 1)[-1])):
        kind = "full"
    return Model(name, kind, tp, pp, kv_dtype)


@cache
def _bytes_per_token(name: str, tp: int, pp: int, kv_dtype: str) -> float | None:
    """From the built-in catalogue only: a check opens no path that a manifest names."""
    from warmset.geometry import catalogue, from_config

    entry = catalogue.find(name) or catalogue.find(name.rstrip("/").rsplit("/", 1)[-1])
    if entry is None:
        return None
    try:
        footprint = from_config(entry.config, name=entry.name).footprint(kv_dtype=kv_dtype, tp=tp, pp=pp)
        return float(footprint.bytes_per_token)
    except WarmsetError:
        return None


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    path = files("warmset.checks") / "data" / "models.csv"
    rows = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    return tuple((re.compile(row["pattern"]), row["kind"]) for row in rows)
