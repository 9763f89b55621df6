"""What a backend needs, before any target decides how to write it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from warmset.units import GIB

# Message queues and NCCL live in /dev/shm beside the tier.
SHM_BASE_BYTES = 2 * GIB

# A credential is written as this and nothing else; every target turns it into its own kind of reference.
SECRET = "${%s}"  # noqa: S105  # a format, not a password


@dataclass(frozen=True, slots=True)
class Conversion:
    """One size on its way into a setting: `bytes` became `value`, which the setting counts in `unit`."""

    setting: str
    value: str
    unit: str
    bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its command and the environment that it needs beside the usual one.

    `folder` is where the image has the program, if that is not on the image's own path.
    """

    name: str
    argv: tuple[str, ...]
    image: str
    port: int
    env: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def contained(self) -> tuple[str, ...]:
        """The command as the image's container finds it."""
        return (f"{self.folder}/{self.argv[0]}" if self.folder else self.argv[0], *self.argv[1:])


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next, and the command that does it."""

    text: str
    command: str


@dataclass(frozen=True, slots=True)
class Written:
    """What a target makes of the parts.

    Attributes:
        command: one line for a shell: the server itself, or the command that applies the files.
        metrics_url: where the server's /metrics answers, seen from where the reader types, once `way` is done.
        files: file name → text.
        way: what brings the server to `metrics_url`; nothing where it answers there by itself.
        notes: what a reader of the files must know.
    """

    command: str
    metrics_url: str
    files: Mapping[str, str] = field(default_factory=dict)
    way: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """The processes of one launch and what their host must give them.

    Attributes:
        server: the inference server.
        cache_server: LMCache's server, where there is one.
        transfer_config: the KVTransferConfig that the server gets, if any.
        host_memory_bytes: memory of all tiers on the host, all replicas.
        shm_bytes: what /dev/shm must hold for the tier, all replicas; 0 where the tier is elsewhere.
        disk_path: directory on the host that must be there for the server.
        secrets: environment variables that carry credentials.
        required_secrets: whether the server cannot start without them.
        lmcache_env: LMCache settings, apart from the rest because a chart has fields for them.
    """

    server: Process
    cache_server: Process | None = None
    transfer_config: Mapping[str, Any] | None = None
    host_memory_bytes: int = 0
    shm_bytes: int = 0
    disk_path: str | None = None
    secrets: tuple[str, ...] = ()
    required_secrets: bool = False
    lmcache_env: Mapping[str, str] = field(default_factory=dict)
    conversions: tuple[Conversion, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def env(self) -> dict[str, str]:
        """Everything that the server's process gets, LMCache settings included."""
        return {**self.server.env, **self.lmcache_env}
