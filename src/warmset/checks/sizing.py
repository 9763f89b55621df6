"""The arithmetic of host tiers: what is really taken on one machine, and what there is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmset.checks.lmcache import IN_PROCESS
from warmset.checks.text import Place, Word
from warmset.units import GB, GIB, format_bytes

if TYPE_CHECKING:
    from warmset.checks.case import Case

# What the server itself needs beside its tier: the processes, staging of weights, page tables.
RESERVE_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class HostTier:
    """A host tier of one launch.

    Attributes:
        kind: `native`, `simple`, `lmcache`, `hicache`, `lmcache-server` or `kvbm`.
        written_bytes: the size as written, in bytes.
        node_bytes: what all ranks and replicas on one machine take together.
        per_rank: whether the written size counts for each rank.
        ranks: workers on one machine that each take it (1 for a total).
        replicas: data-parallel replicas on one machine.
        at: where the size is written.
        spec: the offloading spec of a native tier.
        unit: how its size is said, for messages.
    """

    kind: str
    written_bytes: int
    node_bytes: int
    per_rank: bool
    ranks: int
    replicas: int
    at: Word | Place
    spec: str = ""
    unit: str = ""

    @property
    def decimal(self) -> bool:
        """Whether the size is written in powers of ten, and is said so."""
        return self.written_bytes % GB == 0 and self.written_bytes % GIB != 0

    @property
    def formula(self) -> str:
        """How the node's figure comes about, in words."""
        parts = [said(self.written_bytes, self.decimal)]
        if self.ranks > 1:
            parts.append(f"{self.ranks} ranks")
        if self.replicas > 1:
            parts.append(f"{self.replicas} replicas")
        if self.kind == "hicache-twice":
            parts.append("2 pools")
        return f"{' × '.join(parts)} = {said(self.node_bytes, self.decimal)}" if len(parts) > 1 else parts[0]


@dataclass(frozen=True, slots=True)
class Budget:
    """Memory that a tier must fit into: the container's `limit`, its `request`, or the `host`."""

    kind: str
    bytes: int
    at: Word | None

    @property
    def words(self) -> str:
        """For messages."""
        name = {
            "limit": "the container's memory limit",
            "request": "the memory request",
            "host": "the host's memory",
        }
        return f"{name[self.kind]} of {said(self.bytes, self.bytes % GB == 0 and self.bytes % GIB != 0)}"


def said(size_bytes: int, decimal: bool) -> str:
    """A size in the unit that its flag counts in: `160 GB` where it counts in powers of ten, else `149 GiB`."""
    if not decimal:
        return format_bytes(size_bytes)
    return f"{size_bytes / 1e12:.4g} TB" if size_bytes >= 10**12 else f"{size_bytes / GB:.4g} GB"


def host_tiers(case: "Case") -> Iterator[HostTier]:
    """Every host tier whose size is written."""
    launch = case.launch
    ranks, replicas = case.local_ranks, launch.local_replicas
    if launch.server == "sglang":
        yield from _hicache(case, ranks)
        return
    if launch.server == "lmcache-server":
        size = launch.flag("--l1-size-gb")
        if size is not None and size.number is not None and size.value is not None:
            total = int(size.number * GIB)
            yield HostTier("lmcache-server", total, total, False, 1, 1, size.value, unit="GiB for the server")
        return
    for connector in case.kv.connectors:
        extra = connector.extra
        at: Word | Place = connector.word
        if connector.name == "OffloadingConnector":
            size_bytes = _number(extra.get("cpu_bytes_to_use"))
            if size_bytes:
                at = connector.word if case.kv.by_flag else connector.key("cpu_bytes_to_use")
                unit = "GiB for the engine" if case.kv.by_flag else "bytes for the engine"
                yield HostTier(
                    "native", size_bytes, size_bytes * replicas, False, 1, replicas, at, connector.spec, unit
                )
        elif connector.name == "SimpleCPUOffloadConnector":
            per_rank = _number(extra.get("cpu_bytes_to_use_per_rank"))
            whole = _number(extra.get("cpu_bytes_to_use"))
            if per_rank:
                at = connector.key("cpu_bytes_to_use_per_rank")
                yield HostTier(
                    "simple",
                    per_rank,
                    per_rank * ranks * replicas,
                    True,
                    ranks,
                    replicas,
                    at,
                    unit="bytes per rank",
                )
            elif whole:
                at = connector.word if case.kv.by_flag else connector.key("cpu_bytes_to_use")
                yield HostTier(
                    "simple", whole, whole * replicas, False, 1, replicas, at, unit="bytes for the engine"
                )
        elif connector.name in IN_PROCESS:
            yield from _in_process(case, ranks, replicas)
    cpu = launch.env.get("DYN_KVBM_CPU_CACHE_GB")
    if cpu is not None and (gigabytes := _text_number(cpu.value)):
        yield HostTier("kvbm", int(gigabytes * GB), int(gigabytes * GB), False, 1, 1, cpu, unit="GB")


def _in_process(case: "Case", ranks: int, replicas: int) -> Iterator[HostTier]:
    size = case.lmcache.get("max_local_cpu_size")
    if size is None or size.number is None or not case.lmcache.on("local_cpu", True):
        return
    # With MLA only the first rank of each stage stores, so only it takes the pool.
    taking = max(1, ranks // case.launch.tensor_parallel) if case.model.kind == "mla" else ranks
    unit = int(case.lmcache_engine.default("gb_bytes") or GIB)
    written = int(size.number * unit)
    yield HostTier(
        "lmcache", written, written * taking * replicas, True, taking, replicas, size.at, unit="GiB per rank"
    )


def _hicache(case: "Case", ranks: int) -> Iterator[HostTier]:
    size = case.launch.flag("--hicache-size")
    if size is None or size.number is None or size.number <= 0 or size.value is None:
        return
    unit = int(case.engine.default("hicache_size_unit") or GB)
    written = int(size.number * unit)
    twice = 2 if case.model.kind == "state" else 1
    kind = "hicache-twice" if twice == 2 else "hicache"
    yield HostTier(kind, written, written * ranks * twice, True, ranks, 1, size.value, unit="GB per rank")


def size_setting(case: "Case", tier: HostTier, size_bytes: int) -> str:
    """The setting that this launch sizes its tier by, with another size: a fix to type."""
    if tier.kind in ("native", "simple") and not case.kv.by_flag:
        return f'"cpu_bytes_to_use": {size_bytes}'
    if tier.kind == "lmcache":
        return f"LMCACHE_MAX_LOCAL_CPU_SIZE={size_bytes // GIB}"
    if tier.kind.startswith("hicache"):
        return f"--hicache-size {size_bytes // GB}"
    return f"--kv-offloading-size {size_bytes // GIB}"


def budgets(case: "Case") -> tuple[Budget, ...]:
    """What the tiers of a launch must fit into, the tightest kind first."""
    found: list[Budget] = []
    resources = case.launch.resources
    if resources.memory_limit_bytes:
        found.append(Budget("limit", resources.memory_limit_bytes, resources.memory_word))
    elif resources.memory_request_bytes:
        found.append(Budget("request", resources.memory_request_bytes, resources.memory_word))
    if case.facts.host_ram_bytes:
        found.append(Budget("host", case.facts.host_ram_bytes, None))
    return tuple(found)


def next_power_of_two(value: int) -> int:
    """The smallest power of two that is not below a size."""
    return 1 << max(0, (value - 1)).bit_length()


def _number(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 < value < 2**60 else None


def _text_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < 2**40 else None
