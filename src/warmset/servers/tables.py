"""Reads the data tables: one folder per server, one CSV file per kind of name, read when first asked for.

A row states one fact over an inclusive range of versions; a name whose default changed has several rows.
"""

import csv
import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from warmset.servers.facts import (
    ConnectorFact,
    EnvFact,
    Fact,
    FieldFact,
    FlagFact,
    KeyFact,
    Kind,
    MetricFact,
    RuleFact,
)
from warmset.servers.version import Version

SERVERS = ("vllm", "lmcache", "sglang")

Row = dict[str, str]


@cache
def inspected(server: str) -> tuple[Version, ...]:
    """The releases whose own source the tables were read from, oldest first."""
    return tuple(sorted(Version.parse(row["version"]) for row in _rows(server, "versions")))


@cache
def facts(server: str, kind: Kind) -> tuple[Fact, ...]:
    """Every row of one table, in file order."""
    file, build = _TABLES[kind]
    return tuple(build(row) for row in _rows(server, file))


def _rows(server: str, file: str) -> list[Row]:
    path = files("warmset.servers") / "data" / server / f"{file}.csv"
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def _range(row: Row) -> dict[str, Any]:
    return {"since": Version.parse(row["since"]), "until": Version.parse(row["until"])}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split("|")) if text else ()


def _value(text: str) -> object:
    """A rule's value: JSON where it reads as JSON, else the text itself; empty is None."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _flag(row: Row) -> FlagFact:
    return FlagFact(
        row["name"],
        **_range(row),
        scope=row["scope"],
        unit=row["unit"],
        default=row["default"] or None,
        values=_words(row["values"]),
        replaced_by=row["replaced_by"] or None,
        meaning=row["meaning"],
        source=row["source"],
    )


def _connector(row: Row) -> ConnectorFact:
    return ConnectorFact(
        row["name"],
        row["kind"],
        **_range(row),
        platforms=_words(row["platforms"]),
        hybrid={"yes": True, "no": False}.get(row["hybrid"]),
        replaced_by=row["replaced_by"] or None,
        needs=row["needs"],
        meaning=row["meaning"],
        source=row["source"],
    )


def _field(row: Row) -> FieldFact:
    return FieldFact(
        row["config"],
        row["name"],
        **_range(row),
        default=row["default"] or None,
        replaced_by=row["replaced_by"] or None,
        meaning=row["meaning"],
        source=row["source"],
    )


def _key(row: Row) -> KeyFact:
    return KeyFact(
        row["connector"],
        row["spec"],
        row["tier"],
        row["name"],
        **_range(row),
        required=row["required"] == "yes",
        unit=row["unit"],
        default=row["default"] or None,
        replaced_by=row["replaced_by"] or None,
        meaning=row["meaning"],
        source=row["source"],
    )


def _env(row: Row) -> EnvFact:
    return EnvFact(
        row["name"],
        **_range(row),
        unit=row["unit"],
        default=row["default"] or None,
        replaced_by=row["replaced_by"] or None,
        meaning=row["meaning"],
        source=row["source"],
    )


def _rule(row: Row) -> RuleFact:
    return RuleFact(
        row["key"],
        **_range(row),
        value=_value(row["value"]),
        unit=row["unit"],
        meaning=row["meaning"],
        source=row["source"],
    )


def _metric(row: Row) -> MetricFact:
    return MetricFact(
        row["role"],
        row["name"],
        **_range(row),
        type=row["type"],  # type: ignore[arg-type]  # a test holds the column to the three words
        labels=_words(row["labels"]),
        unit=row["unit"],
        shown=row["shown"] != "no",
        replaced_by=row["replaced_by"] or None,
        meaning=row["meaning"],
        note=row["note"],
        source=row["source"],
    )


_TABLES: dict[Kind, tuple[str, Callable[[Row], Fact]]] = {
    "flag": ("flags", _flag),
    "connector": ("connectors", _connector),
    "config_field": ("config_fields", _field),
    "extra_key": ("extra_keys", _key),
    "env": ("env", _env),
    "rule": ("rules", _rule),
    "metric": ("metrics", _metric),
}
