"""What every kind of input becomes: a server about to be started, with its arguments, environment and limits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from warmset.checks.text import Place, Word
from warmset.units import GB, GIB

Server = Literal["vllm", "sglang", "lmcache-server", "lmcache-store", "bench", "dynamo", "unknown"]

# Where containers and vLLM share memory between processes.
SHM = "/dev/shm"  # noqa: S108  # a name to compare with, nothing is created there

# What a container gets as /dev/shm when nobody says anything (Docker, containerd and CRI-O alike).
DEFAULT_SHM_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Flag:
    """One occurrence of a flag: the word that names it and the word that holds its value, if any."""

    name: str
    word: Word
    value: Word | None

    @property
    def spelling(self) -> str:
        """The name as the input spells it: a short name, an alias, or the field that stands for the flag."""
        written = self.word.text.value[self.word.start : self.word.end].strip("\"'")
        return written.partition("=")[0]

    @property
    def number(self) -> float | None:
        """The value as a number, or None."""
        return to_number(self.value.value) if self.value is not None and self.value.known else None


@dataclass(frozen=True, slots=True)
class Volume:
    """A mounted directory: `emptydir`, `pvc`, `host`, `bind` or `other`; bytes where a limit is set."""

    path: str
    kind: str
    limit_bytes: int | None = None
    word: Word | None = None


@dataclass(frozen=True, slots=True)
class Resources:
    """What the launch may use. None means that the input does not say.

    `shm_bytes` is the size of /dev/shm; 0 stands for "not bounded by the container" (the host's own).
    """

    container: bool = False
    memory_limit_bytes: int | None = None
    memory_request_bytes: int | None = None
    memory_word: Word | None = None
    shm_bytes: int | None = None
    shm_word: Word | None = None
    shm_survives_restart: bool = False
    memlock_unlimited: bool | None = None
    gpus: int | None = None
    replicas: int | None = None
    nodes: int | None = None
    volumes: tuple[Volume, ...] = ()
    restarts: bool = False
    runtime: str = ""


@dataclass(frozen=True, slots=True)
class ServerLaunch:
    """A server as it would be started.

    Attributes:
        server: which program it is.
        where: the word that names it (or the key that makes a chart start it).
        words: its arguments, the model among them.
        flags: its flags under their long names, in order.
        positionals: arguments that belong to no flag.
        env: the environment that the input gives it.
        unexported: shell variables that look meant for it and do not reach it.
        version: its version where the input names one, and lmcache_version likewise.
        platform: `cuda`, `rocm`, `xpu`, `cpu`, or empty when nothing says.
        origin: the kind of input that it was read from.
        complete: False where arguments come from outside the input.
        settings: values that a chart or operator is given instead of flags, by path.
    """

    server: Server
    where: Word
    words: tuple[Word, ...] = ()
    flags: Mapping[str, tuple[Flag, ...]] = field(default_factory=dict)
    positionals: tuple[Word, ...] = ()
    env: Mapping[str, Word] = field(default_factory=dict)
    unexported: Mapping[str, Word] = field(default_factory=dict)
    resources: Resources = Resources()
    version: str | None = None
    version_source: str = ""
    lmcache_version: str | None = None
    platform: str = ""
    origin: str = "shell"
    complete: bool = True
    settings: Mapping[str, Word] = field(default_factory=dict)
    name: str = ""

    def flag(self, *names: str) -> Flag | None:
        """The last occurrence of the first of these flags that is given."""
        for name in names:
            if found := self.flags.get(name):
                return found[-1]
        return None

    def has(self, *names: str) -> bool:
        """Whether one of the flags is given."""
        return any(name in self.flags for name in names)

    def number(self, *names: str) -> float | None:
        """The numeric value of a flag."""
        found = self.flag(*names)
        return None if found is None else found.number

    def whole(self, *names: str, default: int = 1) -> int:
        """The value of a flag as a positive whole number, or the default."""
        value = self.number(*names)
        return int(value) if value is not None and 1 <= value < 1e9 else default

    def enabled(self, name: str) -> bool | None:
        """A switch: True for `--name`, False for `--no-name` or an explicit false, None if not given."""
        on, off = self.flag("--" + name), self.flag("--no-" + name)
        if on is not None and on.value is not None and on.value.value.lower() in ("false", "0", "no"):
            return False
        if on is None and off is None:
            return None
        return on is not None and (off is None or self._last(on) >= self._last(off))

    def _last(self, flag: Flag) -> int:
        return flag.word.text.offset(flag.word.start)

    @property
    def model(self) -> Word | None:
        """The model: `--model`, `--model-path` or the first positional."""
        found = self.flag("--model", "--model-path")
        if found is not None and found.value is not None:
            return found.value
        return self.positionals[0] if self.positionals else None

    @property
    def tensor_parallel(self) -> int:
        """Ranks that share one layer."""
        return self.whole("--tensor-parallel-size")

    @property
    def pipeline_parallel(self) -> int:
        """Stages that share the layers."""
        return self.whole("--pipeline-parallel-size")

    @property
    def data_parallel(self) -> int:
        """Replicas inside one launch."""
        return self.whole("--data-parallel-size")

    @property
    def ranks(self) -> int:
        """Worker processes of one engine."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def nodes(self) -> int:
        """Machines that one engine spans."""
        return self.whole("--nnodes", default=self.resources.nodes or 1)

    @property
    def local_ranks(self) -> int:
        """Worker processes of one engine on one machine."""
        return max(1, self.ranks // self.nodes)

    @property
    def local_replicas(self) -> int:
        """Data-parallel replicas on one machine, each with its own tiers."""
        local = self.number("--data-parallel-size-local")
        if local is not None and local >= 1:
            return int(local)
        return max(1, self.data_parallel // self.nodes) if self.server == "vllm" else 1

    def with_(self, **changes: object) -> "ServerLaunch":
        """A copy with some attributes changed."""
        return replace(self, **changes)  # type: ignore[arg-type]  # names are checked by dataclasses

    def extent(self) -> Iterator[Place]:
        """The first and the last place of the launch."""
        yield self.where.place
        if self.words:
            yield self.words[-1].place


_NUMBER_SUFFIX = {"k": 10**3, "m": 10**6, "g": GB, "t": 10**12, "K": 2**10, "M": 2**20, "G": GIB, "T": 2**40}


def to_number(text: str) -> float | None:
    """A number as servers read it: plain, scientific, or with vLLM's suffixes (`k` decimal, `K` binary)."""
    stripped = text.strip().replace("_", "")
    if len(stripped) > 40:
        return None
    factor = _NUMBER_SUFFIX.get(stripped[-1:], 1)
    digits = stripped[:-1] if factor != 1 else stripped
    try:
        value = float(digits) * factor
    except ValueError:
        return None
    return value if value == value and abs(value) < 1e30 else None


def quantity(text: str, *, docker: bool = False) -> int | None:
    """A size as Kubernetes (`24Gi`, `1e9`, `500M`) or Docker (`16g`, `16gb`: binary) writes it, or None."""
    stripped = text.strip().strip("\"'")
    digits = stripped.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = stripped[len(digits) :].lower()
    if docker:
        factor = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": GIB, "t": 2**40}.get(unit[:1])
    else:
        decimal = {"": 1, "k": 10**3, "m": 10**6, "g": GB, "t": 10**12, "p": 10**15}
        binary = {"ki": 2**10, "mi": 2**20, "gi": GIB, "ti": 2**40, "pi": 2**50}
        factor = {**decimal, **binary, "gb": GB, "gib": GIB, "mb": 10**6, "mib": 2**20}.get(unit)
    if factor is None or not digits or len(digits) > 30:
        return None
    try:
        value = float(digits) * factor
    except ValueError:
        return None
    return int(value) if 0 <= value < 2**60 else None


def truthy(text: str) -> bool:
    """How servers and charts read a boolean."""
    return text.strip().strip("\"'").lower() in ("true", "1", "yes", "on", "y", "t")
