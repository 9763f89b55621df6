"""What a backend can have below host memory in a server version, as far as a launch can be written for it."""

from dataclasses import dataclass

from warmset.plan.charge import NATIVE
from warmset.plan.host import Placement
from warmset.servers import Engine

_CONNECTOR, _SPEC = "OffloadingConnector", "TieringOffloadingSpec"


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """Kinds of storage (`disk`, `object`) that a lower tier can be.

    `why_not` and `instead` say why another kind is none, and what would be. `placed` is where the host's part lives
    once there is a tier below it.
    """

    kinds: tuple[str, ...]
    why_not: str
    instead: tuple[str, ...]
    placed: Placement


def below(server: Engine, backend: str, placed: Placement) -> Below:
    """What `backend` can have below host memory in this version."""
    kinds = _kinds(server, backend)
    return Below(
        kinds=kinds,
        why_not=_why_not(server, backend, kinds),
        instead=_instead(server, backend, kinds),
        placed=placed,
    )


def with_lower_tier(backend: str, kind: str) -> str:
    """The backend that a plan is for: vLLM's native one is another with a tier below it."""
    return {"disk": "native+disk", "object": "native+object"}[kind] if backend == "native" else backend


def _kinds(server: Engine, backend: str) -> tuple[str, ...]:
    if backend.startswith("lmcache"):
        return ("disk",)
    if backend not in NATIVE or server.spec(_SPEC) is None:
        return ()
    if backend == "native+warmset":
        outside = server.extra_config_keys(_CONNECTOR, _SPEC, "fs")
        return ("disk", "object") if "module_path" in outside else ()
    own = {
        "disk": any(server.tier(name) is not None for name in ("fs", "fs_python")),
        "object": server.tier("obj") is not None,
    }
    return tuple(kind for kind, there in own.items() if there and backend in ("native", f"native+{kind}"))


def _why_not(server: Engine, backend: str, kinds: tuple[str, ...]) -> str:
    if backend == "hicache":
        return "warmset writes no tier below HiCache's host pool"
    if not kinds:
        return f"`{server}` with backend `{backend}` has no tier below host memory"
    return f"backend `{backend}` has no {' and no '.join(_others(kinds))} below host memory here"


def _others(kinds: tuple[str, ...]) -> list[str]:
    names = {"disk": "disk", "object": "object store"}
    return [name for kind, name in names.items() if kind not in kinds] or ["such storage"]


def _instead(server: Engine, backend: str, kinds: tuple[str, ...]) -> tuple[str, ...]:
    if backend == "hicache":
        return (
            (
                "SGLang puts storage below the host pool by `--hicache-storage-backend` (and its configuration): add "
                "it to the command yourself",
            )
            if server.has_flag("--hicache-storage-backend")
            else ()
        )
    if backend.startswith("lmcache"):
        return ("LMCache takes a disk here (`--disk NAME`)",)
    if backend == "native+warmset":
        able = server.versions_with("extra_key", "module_path")
    else:
        object_only = backend == "native+object" or "disk" in kinds
        able = server.versions_with("connector", "obj" if object_only else _SPEC)
    newer = [version for version in able if version > server.facts_version]
    if newer:
        return (f"vLLM {newer[0]} and newer have it: `--engine vllm@{newer[0]} --backend {backend}`",)
    return ("name storage of the other kind, or use `--backend native`",)
