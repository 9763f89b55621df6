"""From a request to what to type: one backend gives the parts, one target writes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from warmset.launch.backends import hicache, lmcache_inprocess, lmcache_server, native, tiering
from warmset.launch.parts import Conversion, Parts
from warmset.launch.request import UNNAMED_MODEL, LaunchRequest
from warmset.launch.targets import compose, helm, kserve, shell

_BACKENDS: dict[str, Callable[[LaunchRequest], Parts]] = {
    "native": native.parts,
    "native+disk": tiering.disk_parts,
    "native+object": tiering.object_parts,
    "native+warmset": tiering.warmset_parts,
    "lmcache": lmcache_server.parts,
    "lmcache-inprocess": lmcache_inprocess.parts,
    "hicache": hicache.parts,
}
_TARGETS: dict[str, Callable[[LaunchRequest, Parts], tuple[str, dict[str, str]]]] = {
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
        notes: what a reader must know.
    """

    request: LaunchRequest
    command: str
    files: Mapping[str, str]
    env: Mapping[str, str]
    argv: tuple[str, ...]
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
    command, files = _TARGETS[request.target](request, parts)
    notes = [*request.engine.notes]
    if request.model is None:
        notes.append(f"no model was named: replace `{UNNAMED_MODEL}`")
    notes += parts.notes
    if request.target == "helm":
        notes += helm.notes(parts)
    elif request.target == "kserve":
        notes += kserve.NOTES
    if files and parts.server.image.endswith(":latest"):
        notes.append(
            f"pin the image `{parts.server.image}` to a tag that carries {request.engine}: `latest` moves"
        )
    return Launch(
        request,
        command,
        files,
        parts.env,
        parts.server.argv,
        cache_server_argv=parts.cache_server.argv if parts.cache_server else (),
        transfer_config=parts.transfer_config,
        host_memory_bytes=parts.host_memory_bytes,
        shm_bytes=parts.shm_bytes,
        conversions=parts.conversions,
        notes=tuple(dict.fromkeys(notes)),
    )
