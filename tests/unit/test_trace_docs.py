"""The reference of `warmset trace` says what the code does."""

from dataclasses import fields
from pathlib import Path

import pytest

from warmset.traces.generate.knobs import USED, Knobs, knobs
from warmset.traces.reading import FORMATS
from warmset.traces.recorder_format import decode_header, decode_request


def test_the_example_of_the_format_decodes(root: Path) -> None:
    text = (root / "docs/reference/trace-format.md").read_text(encoding="utf-8")
    header, *requests = text.split("```json\n")[1].split("```")[0].splitlines()
    assert decode_header(header).block_tokens == 16
    assert [decode_request(line).blocks for line in requests] == [(0, 1), (0, 1, 2)]


def test_every_format_is_listed(root: Path) -> None:
    text = (root / "docs/reference/trace.md").read_text(encoding="utf-8")
    for name in set(FORMATS) - {"table"}:
        assert f"`{name}`" in text


@pytest.mark.parametrize("kind", list(USED))
def test_defaults_of_knobs_are_as_documented(root: Path, kind: str) -> None:
    text = (root / "docs/reference/trace.md").read_text(encoding="utf-8").split("## `generate`")[1]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")
    ]
    column = rows[0].index(kind)
    documented = {}
    for row in rows[2:]:
        options = [part.strip("`") for part in row[0].replace(",", " ").split() if part.startswith("`--")]
        values = [v.strip() for v in row[column].split(",")] if row[column] else []
        assert len(values) in (0, len(options)), row
        documented.update(zip(options, values, strict=False))
    settings = knobs(kind)
    for field in fields(Knobs):
        option = f"--{field.name.replace('_', '-')}"
        assert (option in documented) == (field.name in USED[kind]), option
        if option in documented:
            assert float(documented[option]) == getattr(settings, field.name), option
