"""Shell variables that never reach the server."""

from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Edit, Hit, Rule
from warmset.checks.text import Word

_MEANT = (
    "LMCACHE_",
    "VLLM_",
    "PYTHONHASHSEED",
    "MOONCAKE_",
    "PROMETHEUS_MULTIPROC_DIR",
    "PYTORCH_CUDA_ALLOC_CONF",
)


def check(case: Case) -> Iterator[Answer]:
    """Assigned on a line of their own, without `export`, and used nowhere on the command line."""
    for name, word in case.launch.unexported.items():
        used = any("$" + name in text or "${" + name in text for text in [case.launch.where.text.value])
        if name.startswith(_MEANT) and not used:
            yield Hit(
                f"`{name}` is set for the shell alone: without `export` the server does not see it",
                word,
                fix=f"export {name}={word.value[:60]}",
                edit=_export(name, word),
            )


def _export(name: str, word: Word) -> Edit | None:
    source = word.text.source
    start = word.text.offset(word.start)
    line = source.text.rfind("\n", 0, start) + 1
    if source.text[line:start].strip("\"' ") != name + "=" or source.name.startswith("<"):
        return None
    at = line + len(source.text[line:start]) - len(source.text[line:start].lstrip())
    return Edit(source.name, at, at, "export ")


RULE = Rule(
    "env-not-exported",
    "warning",
    "A variable that the server never sees.",
    "`NAME=value` on a line of its own sets a variable of the shell. The server sees it only with `export`, or "
    "on the same "
    "line before the command.",
    "LMCACHE_MAX_LOCAL_CPU_SIZE=50\nvllm serve M …",
    "export LMCACHE_MAX_LOCAL_CPU_SIZE=50\nvllm serve M …",
    "all shells",
    "POSIX shell language, 2.9.1",
    check,
)
