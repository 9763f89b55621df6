"""Which families the program takes for always exported, against what others know: real pages, and the reference."""

import re
from pathlib import Path

from warmset.meters.readings import _is_conditional
from warmset.servers import engine, inspected

RECORDED = frozenset(metric.name for metric in engine("vllm@0.32").metrics() if metric.shown)


def _offloads(page: frozenset[str]) -> bool:
    return any(name.startswith("vllm:kv_offload_") for name in page)


def test_what_a_real_page_lacks_is_known_to_be_conditional(recorded_families: list[frozenset[str]]) -> None:
    forgotten = {
        name
        for page in recorded_families
        for name in RECORDED - page
        if not _is_conditional(name, _offloads(page))
    }
    assert sorted(forgotten) == []


def test_what_every_real_page_has_is_not_taken_for_conditional(
    recorded_families: list[frozenset[str]],
) -> None:
    everywhere = RECORDED & frozenset.intersection(*recorded_families)
    assert sorted(name for name in everywhere if _is_conditional(name, offloads=False)) == []


def test_every_family_that_the_reference_lists_under_a_connector_is_conditional(shared: Path) -> None:
    """It tells of newer versions than the recordings, by names, beginnings of names and `name_{one,other}`."""
    text = (shared / "reference/surface.md").read_text()
    section = text.partition("\n### 2.2 ")[2].partition("\n### ")[0]
    listed = {
        word
        for row in re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)
        for word in re.findall(r"[a-z0-9]+_[a-z0-9_]*", row)
    }
    families = {m.name for v in inspected("vllm") for m in engine(f"vllm@{v}").metrics()}
    of_connectors = {n for n in families if n.removeprefix("vllm:").startswith(tuple(listed))}
    assert len(of_connectors) > 60
    assert sorted(n for n in of_connectors if not _is_conditional(n, offloads=False)) == []
