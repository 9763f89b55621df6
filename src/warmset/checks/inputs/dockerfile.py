"""Dockerfiles: ENTRYPOINT and CMD with ENV and ARG, exec and shell form."""

import re

from warmset.checks.command import launches, read_flags, script_launches
from warmset.checks.images import Image, read_image
from warmset.checks.inputs.parsed import Parsed
from warmset.checks.record import ServerLaunch
from warmset.checks.shell import split
from warmset.checks.text import Source, Text, Word
from warmset.checks.tree import documents
from warmset.errors import InputError

_INSTRUCTION = re.compile(
    (
        r"^[ \t]*(?P<name>FROM|ENV|ARG|RUN|CMD|ENTRYPOINT)[ \t]+(?P<rest>(?:[^\n]*\\[ \t]*\r?\n(?:[ "
        r"\t]*#[^\n]*\n)*)*[^\n]*)$"
    ),
    re.MULTILINE | re.IGNORECASE,
)


def read_dockerfile(source: Source) -> Parsed:
    """Read the last stage's entry point and command as one command line."""
    parsed = Parsed(source, "dockerfile")
    env: dict[str, Word] = {}
    image: Image | None = None
    entry: Text | None = None
    command: Text | None = None
    version = lmcache = None
    for match in _INSTRUCTION.finditer(source.text):
        name, text = match["name"].upper(), Text(match["rest"], source, match.start("rest"))
        if name == "FROM":
            words = [w for w in split(text, env) if not w.value.startswith("--")]
            image = read_image(words[0]) if words else None
            entry = command = None
        elif name in ("ENV", "ARG"):
            env.update(_environment(text, env))
        elif name == "RUN":
            version = _installed(text.value, "vllm") or version
            lmcache = _installed(text.value, "lmcache") or lmcache
        elif name == "ENTRYPOINT":
            entry = text
        else:
            command = text
    base = ServerLaunch(
        "unknown",
        Word("", source.whole(), 0, 1),
        origin="dockerfile",
        version=version,
        version_source="installed by the Dockerfile" if version else "",
        lmcache_version=lmcache,
    )
    if image is not None:
        base = image.apply(base)
    words = [*_form(entry, env), *_form(command, env)]
    if not words:
        return parsed
    if words[0].value == "\0shell":
        parsed.launches = script_launches(words[0].text, env, base=base)
        return parsed
    found = launches([w for w in words if w.value != "\0shell"], env, base=base)
    if not found and entry is None and image is not None and image.server is not None:
        found = [read_flags(image.server, words[0], words, env, base=base)]
    parsed.launches = found
    return parsed


def _form(text: Text | None, env: dict[str, Word]) -> list[Word]:
    """The words of the exec form, or one marked word that holds the shell form."""
    if text is None:
        return []
    if text.value.lstrip().startswith("["):
        joined = re.sub(r"\\[ \t]*\r?\n", lambda m: " " * len(m[0]), text.value)
        try:
            roots = documents(text.source, Text(joined, text.source, text.base))
        except InputError:
            roots = []
        if roots and roots[0].kind == "seq":
            return [item.word for item in roots[0].items if item.kind == "scalar"]
    return [Word("\0shell", text, 0, len(text.value))]


def _environment(text: Text, env: dict[str, Word]) -> dict[str, Word]:
    """`ENV A=1 B="x y"` and the old `ENV A 1`."""
    out: dict[str, Word] = {}
    words = split(Text("env " + text.value, text.source, text.base - 4), env)
    for each in words[1:]:
        name, separator, value = each.value.partition("=")
        if separator and re.fullmatch(r"[A-Za-z_]\w*", name):
            raw = each.text.value[each.start : each.end]
            start = each.start + raw.find("=") + 1
            out[name] = Word(value, each.text, start, max(each.end, start + 1), each.known)
    if not out and len(words) == 3:
        out[words[1].value] = words[2]
    return out


def _installed(text: str, package: str) -> str | None:
    match = re.search(rf"\b{package}(?:\[[^\]]*\])?==(\d+(?:\.\d+)*)", text)
    return match[1] if match else None
