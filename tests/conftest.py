"""Fixtures that every kind of test shares."""

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
