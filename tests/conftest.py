"""Fixtures that every kind of test shares."""

import gzip
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The reference folder beside the repository; tests that need it skip where it is absent."""
    path = ROOT.parent / "shared"
    if not (path / "DESIGN.md").is_file():
        pytest.skip("the reference folder is not here")
    return path


@pytest.fixture(scope="session")
def recorded_families(root: Path) -> list[frozenset[str]]:
    """The metric families of each page that a real vLLM 0.32 served; the reference folder has more, where it is."""
    pages = [gzip.decompress(p.read_bytes()).decode() for p in root.glob("tests/golden/live/*.prom.gz")]
    pages += [path.read_text() for path in (root.parent / "shared/metrics").glob("*.prom")]
    return [frozenset(re.findall(r"^# TYPE (vllm:\S+) ", page, re.MULTILINE)) for page in pages]
