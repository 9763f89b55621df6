"""Turns an argument list into a `ServerLaunch`: finds the server behind wrappers and reads its flags."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warmset.checks.images import Image, read_image
from warmset.checks.record import DEFAULT_SHM_BYTES, Flag, Resources, Server, ServerLaunch, Volume, quantity
from warmset.checks.shell import commands
from warmset.checks.text import Text, Word

_SHELLS = frozenset(("sh", "bash", "zsh", "dash", "ash"))
_MODULES: dict[str, Server] = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "sglang.launch_server": "sglang",
    "lmcache.v1.multiprocess.server": "lmcache-server",
    "lmcache.v1.multiprocess.http_server": "lmcache-server",
    "lmcache.v1.server": "lmcache-store",
    "lmcache.server": "lmcache-store",
    "dynamo.vllm": "vllm",
    "dynamo.sglang": "sglang",
    "vllm_router.app": "unknown",
}
_SCRIPTS: tuple[tuple[str, Server], ...] = (
    ("api_server.py", "vllm"),
    ("launch_server.py", "sglang"),
    ("benchmark_throughput.py", "bench"),
    ("benchmark_serving.py", "bench"),
    ("benchmark_latency.py", "bench"),
)
_SHORT = {
    "vllm": {
        "-tp": "--tensor-parallel-size",
        "-pp": "--pipeline-parallel-size",
        "-dp": "--data-parallel-size",
        "-dpl": "--data-parallel-size-local",
        "-dcp": "--decode-context-parallel-size",
        "-q": "--quantization",
        "-n": "--nnodes",
        "-r": "--node-rank",
    },
    "sglang": {
        "--tp": "--tensor-parallel-size",
        "--tp-size": "--tensor-parallel-size",
        "--pp": "--pipeline-parallel-size",
        "--pp-size": "--pipeline-parallel-size",
        "--dp": "--data-parallel-size",
        "--dp-size": "--data-parallel-size",
        "--enable-hicache": "--enable-hierarchical-cache",
    },
}
# Switches take no value; every other flag takes the next word unless that is a flag itself.
_SWITCH = re.compile(
    r"--(no|enable|disable)-|--(trust-remote-code|headless|use-v2-block-manager|help|aggregate-.*)$"
)
_SWITCHES_WITH_VALUE = frozenset(("--enable-prefix-caching", "--disable-log-stats"))
_LOOKS_LIKE_FLAG = re.compile(r"-{1,2}[A-Za-z]")


# Programs that print or search a text and do not run it.
_TALKERS = frozenset(
    ("echo", "printf", "grep", "sed", "awk", "cat", "pkill", "pgrep", "git", "export", "log")
)
_STARTS = re.compile(
    r"(^|[\s;&])(\S*/)?(vllm serve|sglang serve|lmcache server|python3? -m (vllm|sglang)\.)\s*\S"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A server found in an argument list: where its name stands and where its arguments begin."""

    server: Server
    at: int
    first: int
    image: Image | None = None
    resources: Resources | None = None
    env: Mapping[str, Word] | None = None


@dataclass(slots=True)
class Budget:
    """How many scripts inside scripts may still be read: a variable may hold the command that expands it."""

    scripts: int = 64


def find_server(words: Sequence[Word]) -> Found | None:
    """The server that a command line starts, whatever wraps it (`env`, `exec`, `numactl`, `docker run`, …)."""
    for i, each in enumerate(words[:512]):
        base = each.value.rsplit("/", 1)[-1]
        follow = words[i + 1].value if i + 1 < len(words) else ""
        if base == "vllm" and follow in ("serve", "bench", "run-batch", "chat", "complete"):
            server: Server = "vllm" if follow in ("serve", "run-batch") else "bench"
            return Found(server, i, i + 2)
        if base == "sglang" and follow == "serve":
            return Found("sglang", i, i + 2)
        if base == "lmcache" and follow == "server":
            return Found("lmcache-server", i, i + 2)
        if base in ("lmcache_server", "lmcache_v0_server", "lmcache_experimental_server"):
            return Found("lmcache-store", i, i + 1)
        if base in ("vllm-server", "vllm_serve"):
            return Found("vllm", i, i + 1)
        if base == "-m" and follow in _MODULES:
            if follow == "vllm.entrypoints.cli.main" and i + 2 < len(words) and words[i + 2].value == "serve":
                return Found("vllm", i + 1, i + 3)
            return Found(_MODULES[follow], i + 1, i + 2)
        for script, kind in _SCRIPTS:
            if base == script:
                return Found(kind, i, i + 1)
        if base in ("docker", "podman", "nerdctl") and "run" in (w.value for w in words[i + 1 : i + 4]):
            return _docker(words, i)
    return None


def nested_shell(words: Sequence[Word]) -> Word | None:
    """The script of `sh -c "…"` (also behind `exec`, `env`, `docker run … bash -c`), or None."""
    for i, each in enumerate(words[:512]):
        if each.value.rsplit("/", 1)[-1] in _SHELLS:
            for j in range(i + 1, min(i + 5, len(words))):
                option = words[j].value
                if re.fullmatch(r"-[a-z]*c[a-z]*", option):
                    return words[j + 1] if j + 1 < len(words) else None
                if not option.startswith(("-", "+")):
                    break
    return None


def launches(
    words: Sequence[Word],
    env: Mapping[str, Word],
    *,
    unexported: Mapping[str, Word] | None = None,
    base: ServerLaunch | None = None,
    budget: "Budget | None" = None,
) -> list[ServerLaunch]:
    """The servers that one command line starts; `sh -c` is read as the script that it is."""
    budget = budget or Budget()
    if not words:
        return []
    script = nested_shell(words)
    if script is not None:
        wrapped = find_server(words[: _index(words, script)])
        shell_env = {**env, **(wrapped.env or {})} if wrapped else dict(env)
        if wrapped is not None:
            base = _based(base, wrapped, words)
        return script_launches(script.body, shell_env, base=base, budget=budget)
    found = find_server(words)
    if found is None and (inner := _quoted(words)) is not None:
        return script_launches(inner.body, env, base=base, budget=budget)
    if found is None or found.server == "unknown":
        return []
    all_env = {**env, **_env_words(words[: found.at]), **(found.env or {})}
    if found.image is not None or found.resources is not None:
        base = _based(base, found, words)
    return [read_flags(found.server, words[found.at], words[found.first :], all_env, unexported or {}, base)]


def _quoted(words: Sequence[Word]) -> Word | None:
    """A server started by a text that another program runs: `ssh host "…"`, `tmux new -d "…"`, `eval "…"`."""
    if words[0].value.rsplit("/", 1)[-1] in _TALKERS:
        return None
    return next((w for w in words[1:64] if w.known and len(w.value) > 8 and _STARTS.search(w.value)), None)


def script_launches(
    text: Text, env: Mapping[str, Word], *, base: ServerLaunch | None = None, budget: "Budget | None" = None
) -> list[ServerLaunch]:
    """The servers that a script starts, in order."""
    budget = budget or Budget()
    budget.scripts -= 1
    out: list[ServerLaunch] = []
    version = lmcache = None
    for command in commands(text, env) if budget.scripts >= 0 else ():
        version = _installed(command.words, "vllm") or version
        lmcache = _installed(command.words, "lmcache") or lmcache
        if not command.words:
            continue
        exported = {**command.exported, **command.inline}
        for launch in launches(
            command.words, exported, unexported=dict(command.plain), base=base, budget=budget
        ):
            if launch.version is None and launch.server == "vllm" and version:
                launch = launch.with_(version=version, version_source="installed by the script")
            if launch.lmcache_version is None and lmcache:
                launch = launch.with_(lmcache_version=lmcache)
            out.append(launch)
        if len(out) >= 256:
            break
    return out


def read_flags(
    server: Server,
    where: Word,
    words: Sequence[Word],
    env: Mapping[str, Word],
    unexported: Mapping[str, Word] | None = None,
    base: ServerLaunch | None = None,
) -> ServerLaunch:
    """Read a server's own arguments. `base` holds what is known around them (limits, image, kind of input)."""
    flags: dict[str, list[Flag]] = {}
    positionals: list[Word] = []
    short = _SHORT.get(server, {})
    i, complete = 0, True
    while i < len(words):
        each = words[i]
        i += 1
        if not each.known and not each.value.startswith("-"):
            complete = complete and not each.value.startswith(("$", "`", "{{"))
            positionals.append(each)
            continue
        if not _LOOKS_LIKE_FLAG.match(each.value):
            positionals.append(each)
            continue
        name, separator, rest = each.value.partition("=")
        name = short.get(name, name)
        if name.startswith("--"):
            head, dot, tail = name.partition(".")
            name = short.get(head.replace("_", "-"), head.replace("_", "-")) + dot + tail
        value: Word | None = None
        if separator:
            value = _after_equals(each, len(each.value) - len(rest), rest)
        elif (
            i < len(words)
            and not _LOOKS_LIKE_FLAG.match(words[i].value)
            and _takes_value(name, words[i].value)
        ):
            value = words[i]
            i += 1
            if name in ("--lora-modules", "--served-model-name", "--hicache-host-memory-fraction"):
                while i < len(words) and not _LOOKS_LIKE_FLAG.match(words[i].value):
                    i += 1
        flags.setdefault(name, []).append(Flag(name, each, value))
    start = base or ServerLaunch(server, where)
    return start.with_(
        server=server,
        where=where,
        words=tuple(words),
        flags={name: tuple(found) for name, found in flags.items()},
        positionals=tuple(positionals),
        env={**start.env, **env},
        unexported=dict(unexported or {}),
        complete=start.complete and complete,
        platform=start.platform or ("cpu" if "VLLM_CPU_KVCACHE_SPACE" in env else ""),
    )


def _takes_value(name: str, follow: str) -> bool:
    if name in _SWITCHES_WITH_VALUE:
        return follow.lower() in ("true", "false")
    return not _SWITCH.match(name)


def _after_equals(each: Word, skip: int, rest: str) -> Word:
    raw = each.text.value[each.start : each.end]
    equals = raw.find("=")
    start = each.start + equals + 1 if equals >= 0 else each.start
    origin = each.origin if each.origin is not None and each.origin.value == rest else None
    return Word(rest, each.text, start, each.end, each.known, origin)


def _index(words: Sequence[Word], word: Word) -> int:
    return next(i for i, each in enumerate(words) if each is word)


def _env_words(words: Sequence[Word]) -> dict[str, Word]:
    """`env A=1 B=2 vllm serve …`: the assignments before the server."""
    out: dict[str, Word] = {}
    for each in words:
        match = re.match(r"([A-Za-z_]\w*)=", each.value)
        if match is not None:
            out[match[1]] = _after_equals(each, match.end(), each.value[match.end() :])
    return out


def _installed(words: Sequence[Word], package: str) -> str | None:
    if not any(w.value in ("install", "add") for w in words[:8]):
        return None
    for each in words:
        match = re.match(rf"{package}(?:\[[^\]]*\])?==(\d+(?:\.\d+)*)", each.value)
        if match is not None:
            return match[1]
    return None


def _based(base: ServerLaunch | None, found: Found, words: Sequence[Word]) -> ServerLaunch:
    start = base or ServerLaunch(found.server, words[found.at])
    if found.resources is not None:
        start = start.with_(resources=found.resources)
    return found.image.apply(start) if found.image is not None else start


_DOCKER_SWITCHES = frozenset(
    [
        "-d",
        "-i",
        "-t",
        "-it",
        "-ti",
        "-dit",
        "-itd",
        "-di",
        "-id",
        "--rm",
        "--init",
        "--privileged",
        "--detach",
        "--tty",
        "--interactive",
        "-P",
        "--no-healthcheck",
    ]
)


def _docker(words: Sequence[Word], at: int) -> Found | None:
    """`docker run [options] IMAGE [arguments]`: limits, environment and the image's own entry point."""
    i = at + 1
    while i < len(words) and words[i].value != "run":
        i += 1
    i += 1
    env: dict[str, Word] = {}
    volumes: list[Volume] = []
    given: dict[str, Word] = {}
    while i < len(words) and words[i].value.startswith("-"):
        option, separator, rest = words[i].value.partition("=")
        value = _after_equals(words[i], len(option) + 1, rest) if separator else None
        i += 1
        if option in _DOCKER_SWITCHES:
            continue
        if value is None and i < len(words):
            value = words[i]
            i += 1
        if value is None:
            break
        if option in ("-e", "--env"):
            name, _, setting = value.value.partition("=")
            env[name] = _after_equals(value, len(name) + 1, setting)
        elif option in ("-v", "--volume"):
            parts = value.value.split(":")
            if len(parts) > 1:
                volumes.append(Volume(parts[1], "bind", None, value))
        elif option == "--ulimit" and value.value.startswith("memlock"):
            given["memlock"] = value
        else:
            given[{"-m": "--memory", "--shm_size": "--shm-size"}.get(option, option)] = value
    if i >= len(words):
        return None
    image = read_image(words[i])
    shm = given.get("--shm-size")
    host_ipc = "--ipc" in given and given["--ipc"].value == "host"
    memory = given.get("--memory")
    gpus = given.get("--gpus")
    resources = Resources(
        container=True,
        memory_limit_bytes=quantity(memory.value, docker=True) if memory else None,
        memory_word=memory,
        shm_bytes=0 if host_ipc else quantity(shm.value, docker=True) if shm else DEFAULT_SHM_BYTES,
        shm_word=shm,
        memlock_unlimited="memlock" in given and "-1" in given["memlock"].value,
        gpus=int(gpus.value) if gpus and gpus.value.isdigit() else None,
        volumes=tuple(volumes),
        restarts="--restart" in given and given["--restart"].value != "no",
        runtime="docker",
    )
    behind = words[i + 1 :]
    entry = given.get("--entrypoint")
    inner = find_server([entry, *behind] if entry is not None else behind)
    if inner is not None:
        first = i + 1 + inner.first - (entry is not None)
        return Found(
            inner.server, i + 1 + inner.at - (entry is not None), max(first, i + 1), image, resources, env
        )
    return Found(image.server or "unknown", i, i + 1, image, resources, env)
