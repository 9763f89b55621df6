"""From a request to what to type: one backend gives the parts, one target writes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warmset.geometry.catalogue import ids_to_choose
from warmset.launch.backends import hicache, lmcache_inprocess, lmcache_server, native, tiering
from warmset.launch.parts import Conversion, Parts, Step, Written
from warmset.launch.request import UNNAMED_MODEL, LaunchRequest
from warmset.launch.targets import compose, helm, kserve, shell
from warmset.servers import engine

_BACKENDS: dict[str, Callable[[LaunchRequest], Parts]] = {
    "native": native.parts,
    "native+disk": tiering.disk_parts,
    "native+object": tiering.object_parts,
    "native+warmset": tiering.warmset_parts,
    "lmcache": lmcache_server.parts,
    "lmcache-inprocess": lmcache_inprocess.parts,
    "hicache": hicache.parts,
}
_TARGETS: dict[str, Callable[[LaunchRequest, Parts], Written]] = {
    "shell": shell.write,
    "compose": compose.write,
    "helm": helm.write,
    "kserve": kserve.write,
}


@dataclass(frozen=True, slots=True)
class Launch:
    """Exactly what to type.

    Attributes:
        request: what was asked for.
        command: one line for a shell: the server itself, or the command that applies the files.
        files: file name → text.
        env: variables of the server's process (credentials are never among them).
        argv: the server's own command, word by word, credentials as `${NAME}`.
        cache_server_argv: LMCache's server, where there is one.
        transfer_config: the KVTransferConfig in it, if any.
        host_memory_bytes: memory that all tiers take on the host.
        shm_bytes: what the tier takes of /dev/shm; 0 if it lives elsewhere.
        conversions: every size that was turned into another unit.
        metrics_url: where the server's /metrics answers, seen from where the reader types.
        next_steps: what proves the tier once the server is started, in order.
        notes: what a reader must know.
    """

    request: LaunchRequest
    command: str
    files: Mapping[str, str]
    env: Mapping[str, str]
    argv: tuple[str, ...]
    metrics_url: str
    next_steps: tuple[Step, ...]
    cache_server_argv: tuple[str, ...] = ()
    transfer_config: Mapping[str, Any] | None = None
    host_memory_bytes: int = 0
    shm_bytes: int = 0
    conversions: tuple[Conversion, ...] = ()
    notes: tuple[str, ...] = field(default=())


def write(request: LaunchRequest) -> Launch:
    """Write the launch.

    Raises:
        Unsupported: the version, backend or target cannot do it; the hint names what can.
    """
    parts = _BACKENDS[request.backend](request)
    written = _TARGETS[request.target](request, parts)
    notes = [*request.engine.notes]
    if request.model is None:
        notes.append(f"no model was named: replace `{UNNAMED_MODEL}`")
    else:
        notes += _no_hub_id(request.model)
    notes += (*parts.notes, *written.notes)
    if written.files:
        notes += _unpinned(request, parts)
    return Launch(
        request,
        written.command,
        written.files,
        parts.env,
        parts.server.argv,
        written.metrics_url,
        (*written.way, *_proof(written.metrics_url)),
        cache_server_argv=parts.cache_server.argv if parts.cache_server else (),
        transfer_config=parts.transfer_config,
        host_memory_bytes=parts.host_memory_bytes,
        shm_bytes=parts.shm_bytes,
        conversions=parts.conversions,
        notes=tuple(dict.fromkeys(notes)),
    )


def _no_hub_id(model: str) -> tuple[str, ...]:
    """What to put where a catalogue name is no model that a server can load."""
    choices = ids_to_choose(model)
    if choices is None or Path(model).is_dir():
        return ()
    such = f" (such as {' or '.join(f'`{choice}`' for choice in choices)})" if choices else ""
    return (
        f"`{model}` is a name of warmset's catalogue, and the Hub id of exactly that model is not known: put yours"
        f"{such} or a path in its place",
    )


def _proof(url: str) -> tuple[Step, ...]:
    """The next step of the circle: whether the tier helps. Only a baseline can tell a gain from a change of traffic."""
    measure = f"warmset measure {url} --for 5m"
    return (
        Step(
            "first of all, of the server as it runs now, before you type the command above: saves a baseline; then add "
            "`--baseline before.json` below",
            f"{measure} --save before.json",
        ),
        Step("once it serves traffic: does the tier help?", measure),
    )


def _unpinned(request: LaunchRequest, parts: Parts) -> list[str]:
    """One note for each image whose tag moves, with the versions that it must carry."""
    lmcache = request.lmcache or engine("lmcache")
    both = f"{request.engine} and {lmcache}" if parts.lmcache_env else str(request.engine)
    images = [(parts.server.image, both)]
    if parts.cache_server is not None:
        images.append((parts.cache_server.image, str(lmcache)))
    return [
        f"pin the image `{image}` to a tag that carries {versions}: `latest` moves"
        for image, versions in images
        if image.endswith(":latest")
    ]
