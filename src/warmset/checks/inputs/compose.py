"""Compose files: services with their command, environment and limits."""

from warmset.checks.command import launches, read_flags
from warmset.checks.images import read_image
from warmset.checks.inputs.kubernetes import scalars
from warmset.checks.record import DEFAULT_SHM_BYTES, Resources, ServerLaunch, Volume, quantity
from warmset.checks.shell import split
from warmset.checks.text import Word
from warmset.checks.tree import Node


def compose_launches(root: Node) -> list[ServerLaunch]:
    """The servers of a compose file."""
    out: list[ServerLaunch] = []
    services = root.get("services")
    for key, service in services.pairs if services is not None else ():
        if service.kind == "map":
            out += _service(key, service)
    return out


def _service(key: Node, service: Node) -> list[ServerLaunch]:
    env = _environment(service.get("environment"))
    image_node = service.get("image")
    where = image_node.word if image_node is not None else key.word
    image = read_image(where)
    base = image.apply(
        ServerLaunch("unknown", where, resources=_resources(service), origin="compose", name=key.value)
    )
    files = [n.word for n in scalars(service.get("env_file"))]
    if files:
        base = base.with_(settings={"env_file": files[-1]})
    entry, command = _words(service.get("entrypoint"), env), _words(service.get("command"), env)
    words = [*entry, *command]
    found = launches(words, env, base=base)
    if found:
        return found
    if image.server is not None and not entry and (words or "vllm-openai" in image.word.value):
        return [read_flags(image.server, where, words, env, base=base)]
    return []


def _words(node: Node | None, env: dict[str, Word]) -> list[Word]:
    if node is None:
        return []
    if node.kind == "scalar":
        return split(node.text)
    return [_undollar(item.word) for item in scalars(node)]


def _undollar(word: Word) -> Word:
    """Compose reads `$$` as a dollar; `${NAME}` comes from outside the file."""
    if "$" not in word.value:
        return word
    known = "$" not in word.value.replace("$$", "")
    return Word(word.value.replace("$$", "$"), word.text, word.start, word.end, known)


def _environment(node: Node | None) -> dict[str, Word]:
    env: dict[str, Word] = {}
    if node is None:
        return env
    if node.kind == "map":
        for key, value in node.pairs:
            if value.kind == "scalar":
                known = "$" not in value.value and value.value != ""
                text = value.text
                env[key.value] = Word(value.value, text, 0, max(1, len(text.value)), known)
        return env
    for item in scalars(node):
        name, separator, given = item.value.partition("=")
        text = item.text
        env[name] = Word(
            given, text, len(name) + len(separator), len(text.value), bool(separator) and "$" not in given
        )
    return env


def _resources(service: Node) -> Resources:
    shm = service.get("shm_size")
    memory = service.get("mem_limit") or service.get("deploy", "resources", "limits", "memory")
    host_ipc = service.scalar("ipc") == "host"
    replicas = service.scalar("deploy", "replicas") or service.scalar("scale")
    memlock = service.get("ulimits", "memlock")
    unlimited = memlock is not None and ("-1" in memlock.value or memlock.scalar("soft") == "-1")
    volumes: list[Volume] = []
    for item in scalars(service.get("volumes")):
        parts = item.value.split(":")
        if len(parts) > 1:
            kind = "bind" if parts[0].startswith((".", "/", "~", "$")) else "pvc"
            volumes.append(Volume(parts[1], kind, None, item.word))
    return Resources(
        container=True,
        memory_limit_bytes=quantity(memory.value, docker=True) if memory is not None else None,
        memory_word=memory.word if memory is not None else None,
        shm_bytes=0
        if host_ipc
        else quantity(shm.value, docker=True)
        if shm is not None
        else DEFAULT_SHM_BYTES,
        shm_word=shm.word if shm is not None else None,
        memlock_unlimited=unlimited,
        replicas=int(replicas) if replicas and replicas.isdigit() else None,
        volumes=tuple(volumes),
        restarts=(service.scalar("restart") or "no") != "no",
        runtime="compose",
    )
