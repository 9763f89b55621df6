"""Reads the given paths and links what belongs together: env files, ConfigMaps, LMCache files, logs."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from warmset.checks.inputs.dockerfile import read_dockerfile
from warmset.checks.inputs.envfile import looks_like_env, read_env
from warmset.checks.inputs.logs import Log, looks_like_log, read_log
from warmset.checks.inputs.parsed import Parsed
from warmset.checks.inputs.shellfile import read_shell
from warmset.checks.inputs.systemd import read_systemd
from warmset.checks.inputs.yamlfile import read_yaml
from warmset.checks.record import ServerLaunch
from warmset.checks.text import MAX_FILE_BYTES, NothingToCheck, Source, Word, read_source
from warmset.checks.tree import Node
from warmset.errors import InputError
from warmset.opening import open_input

if TYPE_CHECKING:
    from warmset.meters import Snapshot

# A deployment repository has hundreds of files; far more means that the wrong directory was given.
MAX_FILES = 20_000
_SHELL = frozenset((".sh", ".bash", ".zsh", ".ps1", ".bat", ".cmd"))
_PROSE = frozenset((".md", ".markdown", ".rst", ".adoc", ".html", ".htm"))
_SUFFIXES = _SHELL | {".yaml", ".yml", ".json", ".env", ".service", ".log", ".dockerfile"}
# Variables that a server, its cache or what they stand on reads, rightly spelt or not.
_OF_SERVER = re.compile(
    r"(?i)v?llm|lm-?_?cache|lmch?ache|lmcahce|sglang|^sgl_|mooncake|nixl|^dyn_|python_?hash|torch|cuda|hip_|nccl|"
    r"^hf_|hugging|^prometheus_|^ray_|^ucx_|offload|model"
)
# What a page of metrics says of every family, and nothing else does.
_METRICS = re.compile(
    r"^# TYPE \S+ (?:counter|gauge|histogram|summary|info|unknown|untyped)\s*$", re.MULTILINE
)
_SKIPPED = frozenset((".git", "node_modules", ".venv", "venv", "__pycache__", ".terraform"))


@dataclass(frozen=True)
class Inputs:
    """Everything that was read, linked."""

    parsed: tuple[Parsed, ...]
    launches: tuple[ServerLaunch, ...]
    logs: tuple[Log, ...] = ()
    lone_logs: tuple[Parsed, ...] = ()
    lmcache: tuple[Node, ...] = ()
    mooncake: tuple[Node, ...] = ()
    queries: tuple[Word, ...] = ()
    snapshot: "Snapshot | None" = None
    notes: tuple[str, ...] = ()

    @cached_property
    def servers(self) -> frozenset[str]:
        """The kinds of servers that are started."""
        return frozenset(launch.server for launch in self.launches)

    @cached_property
    def _twins(self) -> dict[tuple[str, str], list[ServerLaunch]]:
        found: dict[tuple[str, str], list[ServerLaunch]] = {}
        for launch in self.launches:
            if launch.model is not None and launch.origin != "log":
                found.setdefault((launch.server, launch.model.value), []).append(launch)
        return found

    def twins(self, launch: ServerLaunch) -> list[ServerLaunch]:
        """All launches of the same model on the same kind of server, itself among them."""
        return self._twins.get((launch.server, launch.model.value), []) if launch.model is not None else []

    def source(self, name: str) -> Source | None:
        """The source with this name."""
        return next((p.source for p in self.parsed if p.source.name == name), None)


def collect(
    paths: Sequence[str],
    stdin: bytes | None = None,
    commands: Iterable[Parsed] = (),
    *,
    logs: Sequence[str] = (),
    skip_others: bool = False,
) -> Inputs:
    """Read files, directories and `-` (standard input). `logs` belong to the rest; other logs stand for themselves,
    unless there is only one.

    Only files below the given paths are opened, symbolic links out of them are not followed, nothing is
    executed. A file that is named must be readable (unless `skip_others`); in a directory, files that are no input
    are passed over.
    Raises InputError.
    """
    notes: list[str] = []
    seen: set[str] = set()
    named = [p for path in logs for p in _read_path(path, seen, notes, skip_others=skip_others)]
    parsed: list[Parsed] = list(commands)
    for path in paths:
        if path == "-":
            parsed.append(read(read_source("<stdin>", stdin or b"")))
        else:
            parsed += _read_path(path, seen, notes, skip_others=skip_others)
    for p in named:
        p.is_the_log = True
    return link([*parsed, *named], notes, [p.log for p in named if p.log is not None])


def _read_path(path: str, seen: set[str], notes: list[str], *, skip_others: bool) -> Iterator[Parsed]:
    """A file, or the files of a directory; a file that was read before (`seen`, by real path) is not read again."""
    if not os.path.exists(path):
        raise InputError(
            f"no file or directory `{path[:200]}`",
            hint="a command goes behind `--`: `warmset check -- vllm serve …`",
        )
    folder = os.path.isdir(path)
    for file in _walk(Path(path)) if folder else (Path(path),):
        real = os.path.realpath(file)
        if real in seen:
            continue
        seen.add(real)
        try:
            parsed = read(_open(file))
            parsed.optional = folder or skip_others
            yield parsed
        except InputError as error:
            if not (folder or skip_others):
                raise
            notes.append(f"passed over: {error.message}")


def read(source: Source) -> Parsed:
    """Read one source as what its name, or else its text, says it is."""
    name = os.path.basename(source.name).lower()
    suffix = os.path.splitext(name)[1]
    text = source.text
    if re.match(r"(docker|container)file", name) or suffix == ".dockerfile":
        return read_dockerfile(source)
    if suffix == ".service":
        return read_systemd(source)
    if suffix in (".yaml", ".yml", ".json"):
        return read_yaml(source)
    if suffix in _SHELL:
        return read_shell(source)
    if suffix == ".env" or name.startswith(".env"):
        return read_env(source)
    if _METRICS.search(text):
        from warmset.checks.running import read_page

        return read_page(text, source.name)
    if suffix in (".log", ".out") or looks_like_log(text):
        return _log(source)
    if suffix in _PROSE:
        return _prose(source)
    if re.search(r"^\[Service\]", text, re.MULTILINE):
        return read_systemd(source)
    if re.search(r"^FROM\s+\S", text, re.MULTILINE) and re.search(
        r"^(CMD|ENTRYPOINT|RUN)\b", text, re.MULTILINE
    ):
        return read_dockerfile(source)
    if text.lstrip()[:1] == "{" or re.search(
        r"^(apiVersion|services|servingEngineSpec|kind|- op|---)\b", text, re.MULTILINE
    ):
        return read_yaml(source)
    if looks_like_env(text) and not text.startswith("#!"):
        return read_env(source)
    if re.search(r"^[a-z_\-]+:(\s|$)", text, re.MULTILINE) and not re.search(
        r"\b(vllm|sglang|lmcache)\b.* --", text
    ):
        return read_yaml(source)
    shell = read_shell(source)
    if shell.launches:
        return shell
    log = _log(source)
    return log if log.log is not None and log.log.of_server else shell


def _prose(source: Source) -> Parsed:
    """A page of prose, which may hold commands. Raises NothingToCheck where it holds none."""
    shell = read_shell(source)
    if not shell.launches:
        raise NothingToCheck(
            f"nothing to check in `{source.name}`: it is a page of prose, no log and no script",
            hint="give a script, env file, Dockerfile, compose file, manifest, values file, unit or start-up log; a "
            "command goes behind `--`: `warmset check -- vllm serve …`",
        )
    return shell


def _log(source: Source) -> Parsed:
    parsed = Parsed(source, "log")
    parsed.log = read_log(source)
    if parsed.log.launch is not None:
        parsed.launches = [parsed.log.launch]
    if parsed.log.of_server and not parsed.log.started:
        parsed.notes.append(
            f"`{source.name}` has no start-up line: it tells neither version nor pool, only what went wrong"
        )
    return parsed


def _open(path: Path) -> Source:
    try:
        with open_input(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"cannot read `{path}`: {error.strerror}", hint="check the path and its permissions"
        ) from None
    return read_source(str(path), data)


def _walk(root: Path) -> Iterator[Path]:
    top = root.resolve()
    seen = 0
    for directory, names, files in os.walk(root, followlinks=False):
        names[:] = sorted(n for n in names if n not in _SKIPPED)
        for name in sorted(files):
            path = Path(directory) / name
            lowered = name.lower()
            wanted = path.suffix.lower() in _SUFFIXES or lowered.startswith(
                ("dockerfile", "containerfile", ".env")
            )
            # A link to itself is no file; asked first, because resolving it fails.
            if not wanted or not path.is_file():
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(top):
                continue
            seen += 1
            if seen > MAX_FILES:
                raise InputError(
                    f"`{root}` holds more than {MAX_FILES:,} files",
                    hint="give the directory of one deployment",
                )
            yield path


def link(parsed: list[Parsed], notes: list[str], named: Sequence[Log] = ()) -> Inputs:
    """Put together what belongs together; the `named` logs belong to all launches, others only if there is one."""
    maps = {name: values for p in parsed for name, values in p.config_maps.items()}
    env_files = [p for p in parsed if p.kind == "env"]
    all_logs = [p.log for p in parsed if p.log is not None]
    logs = list(named) or all_logs
    used: set[int] = set()
    launches: list[ServerLaunch] = []
    started = any(launch.origin != "log" for p in parsed for launch in p.launches)
    for p in parsed:
        for launch in [*p.launches, *p.cache_servers]:
            if launch.origin == "log" and started:
                continue
            launches.append(_with_env(launch, p, maps, env_files, used))
        notes.extend(p.notes)
    launches += [_env_only(p) for p in env_files if id(p) not in used and any(map(_OF_SERVER.search, p.env))]
    if len(logs) == 1 and logs[0].version is not None:
        launches = [
            launch.with_(
                version=launch.version or logs[0].version, version_source=launch.version_source or "the log"
            )
            if launch.server == "vllm"
            else launch
            for launch in launches
        ]
    return Inputs(
        tuple(parsed),
        tuple(launches),
        tuple(logs),
        tuple(
            p
            for p in parsed
            if p.log is not None and (len(logs) > 1 or all(p.log is not log for log in logs))
        ),
        tuple(node for p in parsed for node in p.lmcache),
        tuple(node for p in parsed for node in p.mooncake),
        tuple(word for p in parsed for word in p.queries),
        next((p.snapshot for p in parsed if p.snapshot is not None), None),
        tuple(dict.fromkeys(notes)),
    )


def _with_env(
    launch: ServerLaunch,
    parsed: Parsed,
    maps: dict[str, dict[str, Word]],
    files: list[Parsed],
    used: set[int],
) -> ServerLaunch:
    env: dict[str, Word] = {}
    for name in [n for n in launch.env if n.startswith("\0")]:
        env.update(maps.get(name.split(":", 1)[1], {}))
    referred = launch.settings.get("env_file")
    for p in files:
        base = os.path.basename(p.source.name)
        here = (
            os.path.dirname(p.source.name) == os.path.dirname(parsed.source.name) or parsed.kind == "command"
        )
        named = referred is not None and os.path.basename(referred.value) == base
        mentioned = base in parsed.source.text
        if (
            named
            or mentioned
            or (here and launch.origin in ("shell", "command", "config", "systemd", "dockerfile"))
        ):
            used.add(id(p))
            env.update(p.env)
    own = {k: v for k, v in launch.env.items() if not k.startswith("\0")}
    return launch.with_(env={**env, **own}) if env or len(own) != len(launch.env) else launch


def _env_only(parsed: Parsed) -> ServerLaunch:
    """An env file alone: the server that it is for is somewhere else."""
    where = next(iter(parsed.env.values()))
    return ServerLaunch("vllm", where, env=parsed.env, origin="env", complete=False)
