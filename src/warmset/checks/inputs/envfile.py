"""Environment files: `NAME=value`, one a line."""

import re

from warmset.checks.inputs.parsed import Parsed
from warmset.checks.text import Source, Word
from warmset.errors import InputError

# An environment of this size reaches no process; the file is something else.
MAX_VARIABLES = 10_000

LINE = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)[ \t]*=[ \t]*"
    r"(?P<value>'[^'\n]*'|\"(?:[^\"\\\n]|\\.)*\"|[^\n]*?)[ \t\r]*$",
    re.MULTILINE,
)


def looks_like_env(text: str) -> bool:
    """Whether every line that says something is an assignment."""
    lines = [s for line in text.splitlines()[:200] if (s := line.strip()) and not s.startswith("#")]
    return bool(lines) and all(re.match(r"(export\s+)?[A-Za-z_][A-Za-z0-9_.]*\s*=(?!=)", s) for s in lines)


def read_env(source: Source) -> Parsed:
    """Read an env file; a comment after the value counts only behind a blank."""
    parsed = Parsed(source, "env")
    whole = source.whole()
    for match in LINE.finditer(source.text):
        if len(parsed.env) >= MAX_VARIABLES:
            raise InputError(
                f"`{source.name}` sets more than {MAX_VARIABLES:,} variables",
                hint="give the env file of one server",
            )
        value, start = match["value"], match.start("value")
        end = match.end("value")
        if value[:1] in "'\"" and len(value) > 1:
            value, start, end = value[1:-1], start + 1, end - 1
        elif " #" in value:
            value = value.split(" #", 1)[0].rstrip()
            end = start + len(value)
        parsed.env[match["name"]] = Word(value, whole, start, max(end, start + 1), "$" not in value)
    return parsed
