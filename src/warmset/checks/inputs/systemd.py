"""systemd units: ExecStart with its environment, limits and restart policy."""

import re

from warmset.checks.command import script_launches
from warmset.checks.inputs.parsed import Parsed
from warmset.checks.record import Resources, ServerLaunch, quantity
from warmset.checks.text import Source, Text, Word

_SETTING = re.compile(r"^(?P<key>[A-Za-z]+)[ \t]*=[ \t]*(?P<value>(?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)


def read_systemd(source: Source) -> Parsed:
    """Read a unit; continuation lines, quoted `Environment=` and the `-@:+!` prefixes are understood."""
    parsed = Parsed(source, "systemd")
    env: dict[str, Word] = {}
    files: list[Word] = []
    exec_lines: list[Text] = []
    memory = memlock = restart = None
    for match in _SETTING.finditer(source.text):
        key, text = match["key"], Text(match["value"], source, match.start("value"))
        if key == "Environment":
            env.update(_environment(text))
        elif key == "EnvironmentFile":
            files.append(Word(text.value.lstrip("-"), text, 0, len(text.value)))
        elif key in ("ExecStart", "ExecStartPre"):
            skip = len(text.value) - len(text.value.lstrip("-@:+!"))
            exec_lines.append(Text(text.value[skip:], source, text.base + skip))
        elif key == "MemoryMax":
            memory = text
        elif key == "LimitMEMLOCK":
            memlock = text.value.strip() == "infinity"
        elif key == "Restart":
            restart = text.value.strip()
    resources = Resources(
        memory_limit_bytes=quantity(memory.value, docker=True) if memory is not None else None,
        memory_word=Word(memory.value, memory, 0, len(memory.value)) if memory is not None else None,
        shm_bytes=0,
        memlock_unlimited=memlock,
        restarts=restart not in (None, "no"),
        runtime="systemd",
    )
    for line in exec_lines:
        base = ServerLaunch("unknown", Word("", line, 0, 1), resources=resources, origin="systemd")
        parsed.launches.extend(script_launches(line, env, base=base))
    settings = {"env_file": files[-1]} if files else {}
    parsed.launches = [launch.with_(settings={**launch.settings, **settings}) for launch in parsed.launches]
    return parsed


def _environment(text: Text) -> dict[str, Word]:
    out: dict[str, Word] = {}
    for match in re.finditer(
        r"\"([A-Za-z_]\w*)=((?:[^\"\\]|\\.)*)\"|'([A-Za-z_]\w*)=([^']*)'|([A-Za-z_]\w*)=(\S*)", text.value
    ):
        group = 1 if match[1] else 3 if match[3] else 5
        value = match[group + 1]
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        out[match[group]] = Word(
            value, text, match.start(group + 1), max(match.end(group + 1), match.start(group + 1) + 1)
        )
    return out
