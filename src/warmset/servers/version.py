"""Versions of servers, compared as numbers."""

import re
from dataclasses import dataclass

from warmset.errors import InputError

_TEXT = re.compile(
    r"v?(?P<major>\d{1,6})(?:\.(?P<minor>\d{1,6})(?:\.(?P<patch>\d{1,6}))?)?"
    r"(?P<rest>(?:[.\-_+]?[a-z][a-z0-9.+\-_]*)?)",
    re.IGNORECASE,
)


@dataclass(frozen=True, order=True, slots=True)
class Version:
    """A release: major, minor, patch. `0.27.1 > 0.27.0 > 0.9.2`."""

    major: int
    minor: int = 0
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Read `0.32`, `0.32.0`, `v0.32.0`, `0.33.0rc1` or `0.32.0+cpu`; missing parts are 0.

        Pre-release, post-release and local suffixes are dropped. Raises InputError for anything else.
        """
        return parse(text)[0]

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse(text: str) -> tuple[Version, bool, str]:
    """The version, whether a patch number was written, and the suffix that was dropped."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"version `{text[:40]}` is not a version number", hint="write it like `0.32` or `0.27.1`"
        )
    version = Version(int(match["major"]), int(match["minor"] or 0), int(match["patch"] or 0))
    return version, match["patch"] is not None, match["rest"]
