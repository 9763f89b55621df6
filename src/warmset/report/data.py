"""Writes payloads as JSON, YAML and CSV; refuses numbers that JSON does not have."""

import csv
import io
import json
import math
from fractions import Fraction
from importlib.resources import files
from typing import Any

from warmset.report.document import Document, Table

Payload = dict[str, Any]


def to_json(payload: Payload) -> str:
    """The payload as indented JSON; NaN and Infinity are a bug and raise ValueError."""
    return json.dumps(plain(payload), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def to_yaml(payload: Payload) -> str:
    """The payload as YAML, keys in their own order."""
    import yaml

    text: str = yaml.safe_dump(plain(payload), sort_keys=False, allow_unicode=True, width=120)
    return text


def to_csv(document: Document) -> str:
    """The document's first table as CSV."""
    tables = [block for section in document.sections for block in section.blocks if isinstance(block, Table)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for table in tables[:1]:
        writer.writerow(table.headers)
        writer.writerows(table.rows)
    return out.getvalue()


def schema_text(name: str) -> str:
    """The JSON Schema of `warmset.NAME/1`, as shipped."""
    return (files("warmset.report") / "schemas" / f"{name}.json").read_text(encoding="utf-8")


def number(value: int | float | Fraction | None) -> int | float | None:
    """A whole number as int, anything else as float, the unknown as None."""
    if value is None:
        return None
    return int(value) if value == int(value) else float(value)


def plain(value: Any) -> Any:
    """Tuples to lists, fractions to numbers, mappings to dicts; NaN and Infinity raise ValueError."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, Fraction):
        return number(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"not a JSON number: {value}")
    return value
