"""Pages read the same as by the client library that writes them."""

import math
import random
from pathlib import Path

import pytest

from warmset.errors import InputError
from warmset.meters.exposition import Labels, parse

pytestmark = pytest.mark.e2e
parser = pytest.importorskip("prometheus_client.parser")

Samples = dict[tuple[str, Labels], float]
TEXTS = ("a", "b", "{", "}", ",", "\\\\", '\\"', "\\n", " ", "#", "=", "é", "} 5")
VALUES = ("1", "2.5", "-3e5", "NaN", "+Inf", "-Inf", "1e-9")


def ours(page: str) -> Samples:
    return {(name, labels): value for name, rows in parse(page).samples.items() for labels, value in rows}


def theirs(page: str) -> Samples:
    families = parser.text_string_to_metric_families(page)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def alike(a: Samples, b: Samples) -> bool:
    return a.keys() == b.keys() and all(a[k] == b[k] or (math.isnan(a[k]) and math.isnan(b[k])) for k in a)


def test_pages_of_real_servers(shared: Path) -> None:
    for file in sorted((shared / "metrics").glob("*.prom")):
        page = file.read_text()
        assert alike(ours(page), theirs(page)), file.name


@pytest.mark.parametrize("seed", range(8))
def test_pages_with_every_sort_of_label(seed: int) -> None:
    rng = random.Random(seed)
    read = 0
    for _ in range(250):
        page = _page(rng)
        try:
            mine: Samples | None = ours(page)
        except InputError:
            mine = None
        try:
            other: Samples | None = theirs(page)
        except ValueError:
            other = None
        if mine is None or other is None:
            assert mine is other, page
            continue
        assert alike(mine, other), page
        read += 1
    assert read > 100


def _page(rng: random.Random) -> str:
    lines, seen = [], set()
    for _ in range(rng.randint(1, 12)):
        name = rng.choice(("vllm:x_total", "a", "b_sum", "_c:d"))
        labels = tuple(
            (label, "".join(rng.choices(TEXTS, k=rng.randint(0, 4))))
            for label in sorted(rng.sample(("a", "b", "le", "z9"), rng.randint(0, 3)))
        )
        if (name, labels) in seen:
            continue
        seen.add((name, labels))
        space = rng.choice(("", "", " "))
        shown = [f'{label}{space}={space}"{text}"' for label, text in rng.sample(labels, len(labels))]
        braces = "{" + ",".join(shown) + ("," if shown and not space and rng.random() < 0.3 else "") + "}"
        stamp = rng.choice(("", "", " 1700000000000"))
        lines.append(f"{name}{braces if shown else ''}{rng.choice((' ', '  '))}{rng.choice(VALUES)}{stamp}")
    return "\n".join(lines) + "\n"
