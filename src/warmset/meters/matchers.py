"""Label matchers as Prometheus writes them: `job=vllm`, `pod=~"vllm-.*"`, `{job="vllm",model_name!="draft"}`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from warmset.errors import InputError

_HINT = 'write it like `--match model_name=llama` or `--match \'{job="vllm",pod=~"vllm-.*"}\'`'
_PART = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^",]*?)\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label; a missing label counts as empty, and a pattern must match the whole value."""

    name: str
    operator: str
    value: str

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a series with these labels is wanted."""
        have = labels.get(self.name, "")
        if self.operator in ("=", "!="):
            return (have == self.value) == (self.operator == "=")
        return (re.fullmatch(self.value, have) is not None) == (self.operator == "=~")

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.name}{self.operator}"{escaped}"'


Matchers = Sequence[Matcher]


def parse(texts: Iterable[str]) -> tuple[Matcher, ...]:
    """Read matchers; each text may hold several, with or without braces. Raises InputError for anything else."""
    found = []
    for text in texts:
        inner, position = text.strip(), 0
        if inner.startswith("{") and inner.endswith("}"):
            inner = inner[1:-1]
        while position < len(inner):
            part = _PART.match(inner, position)
            if part is None or not part[3]:
                raise InputError(f"matcher `{text[:80]}` cannot be read", hint=_HINT)
            position = part.end()
            value = re.sub(r"\\(.)", r"\1", part[3][1:-1]) if part[3].startswith('"') else part[3]
            if part[2] in ("=~", "!~"):
                try:
                    re.compile(value)
                except re.error as error:
                    raise InputError(
                        f"matcher `{text[:80]}` has a broken pattern: {error}", hint=_HINT
                    ) from None
            found.append(Matcher(part[1], part[2], value))
        if not inner:
            raise InputError(f"matcher `{text[:80]}` is empty", hint=_HINT)
    return tuple(found)
