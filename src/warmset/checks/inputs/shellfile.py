"""Shell scripts and single commands."""

import re
from dataclasses import replace
from os.path import splitext

from warmset.checks.command import launches, script_launches
from warmset.checks.inputs.parsed import Parsed
from warmset.checks.shell import commands
from warmset.checks.text import Source, Text
from warmset.checks.tree import documents
from warmset.errors import InputError

# How other shells continue a line; each is read as the backslash that takes the same place.
_CONTINUATIONS = {".ps1": "`", ".bat": "^", ".cmd": "^"}


def read_shell(source: Source) -> Parsed:
    """Read a script: every server that it starts, and configuration files that it writes by here-document."""
    parsed = Parsed(source, "shell")
    text = source.whole()
    mark = _CONTINUATIONS.get(splitext(source.name)[1].lower())
    if mark is not None:
        text = replace(text, value=re.sub(rf"{re.escape(mark)}(?=\r?\n)", r"\\", text.value))
    parsed.launches = script_launches(text, {})
    for command in commands(text):
        for heredoc in command.heredocs:
            _written(parsed, heredoc.body, heredoc.target or "")
    return parsed


def read_command(arguments: "list[str] | tuple[str, ...]") -> Parsed:
    """Read an argument list given on warmset's own command line."""
    import shlex

    text = arguments[0] if len(arguments) == 1 else shlex.join(arguments)
    source = Source("<command>", text)
    parsed = Parsed(source, "command")
    for command in commands(source.whole()):
        parsed.launches.extend(
            launch.with_(origin="command")
            for launch in launches(
                command.words, {**command.exported, **command.inline}, unexported=command.plain
            )
        )
    if not parsed.launches:
        raise InputError(
            f"no server is started by `{text[:100]}`",
            hint="give a command such as `vllm serve MODEL …`, `python -m sglang.launch_server …`",
        )
    return parsed


def _written(parsed: Parsed, body: Text, target: str) -> None:
    from warmset.checks.inputs.yamlfile import read_documents

    if target.endswith((".yaml", ".yml", ".json")):
        try:
            read_documents(parsed, documents(parsed.source, body))
        except InputError:
            parsed.notes.append(f"`{target}` in a here-document is not YAML")
