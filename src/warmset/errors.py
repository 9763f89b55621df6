"""Every error that warmset raises on purpose, with the exit code that the command line gives it.

WarmsetError            70  base class; raised as such only for a bug
├── GateFailed           1  a gate that the user asked for (`--fail-on`) did not hold
├── InputError           2  bad usage or bad input
│   ├── UnknownName      2  a name that is in no catalogue, with suggestions
│   └── Unsupported      2  a combination that a server version cannot do
└── Undecided            3  not enough evidence to answer
"""

from collections.abc import Iterable
from difflib import get_close_matches

EXIT_DONE = 0
EXIT_INTERRUPTED = 130


class WarmsetError(Exception):
    """Base of all deliberate errors: a message, and a hint that says what to do next."""

    exit_code = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class GateFailed(WarmsetError):
    """A gate that the user asked for did not hold."""

    exit_code = 1


class InputError(WarmsetError):
    """Bad usage or bad input; the message names the value, the hint names the fix."""

    exit_code = 2


class UnknownName(InputError):
    """A name that is in no catalogue; the hint offers the nearest ones."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, hint: str | None = None) -> None:
        near = get_close_matches(name.lower(), list(known), n=3, cutoff=0.6)
        offers = "did you mean " + " or ".join(f"`{n}`" for n in near) + "?" if near else None
        if offers is None and hint is not None:
            hint = hint.removeprefix("or ")
        super().__init__(f"unknown {what} `{name}`", hint=" ".join(h for h in (offers, hint) if h) or None)
        self.suggestions = tuple(near)


class Unsupported(InputError):
    """A combination that the named server version cannot do; the hint names one that can."""


class Undecided(WarmsetError):
    """The evidence does not allow an answer; the hint says what is missing."""

    exit_code = 3
