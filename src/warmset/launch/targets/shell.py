"""A line for a shell."""

import shlex
from collections.abc import Mapping

from warmset.launch.parts import SECRET, Parts, Written
from warmset.launch.request import LaunchRequest


def write(request: LaunchRequest, parts: Parts) -> Written:
    """One line; LMCache's server goes to the background before the server that needs it."""
    lines = [process_line(parts.server.argv, parts.env, parts.secrets)]
    if parts.cache_server is not None:
        lines.insert(0, process_line(parts.cache_server.argv, parts.cache_server.env))
    return Written(" & ".join(lines), f"http://localhost:{parts.server.port}")


def process_line(argv: tuple[str, ...], env: Mapping[str, str], secrets: tuple[str, ...] = ()) -> str:
    """Environment and command of one process, quoted for a POSIX shell."""
    words = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    words += [_quote(word, secrets) for word in argv]
    return " ".join(words)


def _quote(word: str, secrets: tuple[str, ...]) -> str:
    """The word in single quotes, opened only where the shell must fill a credential in."""
    quoted = shlex.quote(word)
    for name in secrets:
        quoted = quoted.replace(SECRET % name, f"'\"{SECRET % name}\"'")
    return quoted
