"""Text from outside (arguments, files, servers) made safe to show: no character may move a terminal's cursor."""

import re

# C0 and C1 controls without tab and newline, and what text that was no UTF-8 leaves behind.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_QUOTED = re.compile(r"`([^`]{200,})`")
_HEAD, _TAIL = 120, 40


def visible(text: str) -> str:
    """`text` with control characters written out, such as `\\x1b`."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def brief(text: str) -> str:
    """`text` with values in backticks cut down to what a person reads."""
    return _QUOTED.sub(lambda match: f"`{match[1][:_HEAD]}…{match[1][-_TAIL:]}`", text)
