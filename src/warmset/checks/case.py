"""What a rule looks at: one launch with the facts, the version's tables and everything beside it."""

import math
from dataclasses import dataclass
from functools import cached_property

from warmset.checks.collect import Inputs
from warmset.checks.inputs.logs import Log
from warmset.checks.kv import KV, Connector, read_kv
from warmset.checks.lmcache import IN_PROCESS, LMCache, read_lmcache
from warmset.checks.models import Model, describe
from warmset.checks.record import ServerLaunch
from warmset.checks.sizing import HostTier, host_tiers
from warmset.servers import Engine, Version, engine


@dataclass(frozen=True, slots=True)
class Facts:
    """What the user says about the host and the versions; None where nothing is said."""

    host_ram_bytes: int | None = None
    gpus: int | None = None
    engine: Engine | None = None
    lmcache: Engine | None = None


@dataclass(frozen=True)
class Case:
    """One launch in its surroundings."""

    launch: ServerLaunch
    inputs: Inputs
    facts: Facts
    engine: Engine
    engine_source: str
    lmcache_engine: Engine
    lmcache_known: bool

    @property
    def assumed(self) -> bool:
        """Whether nobody named the version, so that the newest known stands in."""
        return self.engine_source == "newest known"

    @property
    def vllm(self) -> bool:
        """Whether the launch is vLLM."""
        return self.launch.server == "vllm"

    @property
    def sglang(self) -> bool:
        """Whether the launch is SGLang."""
        return self.launch.server == "sglang"

    @property
    def version(self) -> Version:
        """The version that the launch is checked as."""
        return self.engine.facts_version

    def before(self, text: str) -> bool:
        """Whether the version is known and older."""
        return not self.assumed and self.version < Version.parse(text)

    def since(self, text: str) -> bool:
        """Whether the version is this one or newer (the newest known where none is named)."""
        return self.version >= Version.parse(text)

    def between(self, first: str, last: str) -> bool:
        """Whether the version is named and lies in an inclusive range."""
        return not self.assumed and Version.parse(first) <= self.version <= Version.parse(last)

    @cached_property
    def kv(self) -> KV:
        """The KV tier of a vLLM launch; empty for other servers."""
        return read_kv(self.launch, self.engine) if self.vllm or self.launch.server == "bench" else KV()

    @cached_property
    def lmcache(self) -> LMCache:
        """LMCache's settings."""
        return read_lmcache(self.launch, self.kv, self.inputs.lmcache)

    @cached_property
    def model(self) -> Model:
        """The model, by its name."""
        word = self.launch.model
        name = word.value if word is not None and word.known else ""
        dtype = self.launch.flag("--kv-cache-dtype")
        kv_dtype = dtype.value.value if dtype is not None and dtype.value is not None else "auto"
        return describe(name, self.launch.tensor_parallel, self.launch.pipeline_parallel, kv_dtype)

    @cached_property
    def tiers(self) -> tuple[HostTier, ...]:
        """The host tiers whose sizes are written."""
        return tuple(host_tiers(self))

    @property
    def shm_specs(self) -> tuple[str, ...]:
        """The offloading specs that keep their tier in /dev/shm in this version."""
        found = self.engine.default("dev_shm_users") if self.vllm else None
        return tuple(found) if isinstance(found, list) else ()

    @property
    def native(self) -> Connector | None:
        """vLLM's own offloading connector, if it is in force."""
        return self.kv.named("OffloadingConnector")

    @property
    def simple(self) -> Connector | None:
        """vLLM's simpler connector, if it is in force."""
        return self.kv.named("SimpleCPUOffloadConnector")

    @property
    def in_process(self) -> Connector | None:
        """LMCache inside the engine, if it is in force."""
        return self.kv.named(*IN_PROCESS)

    @property
    def client(self) -> Connector | None:
        """LMCache's client of a separate server, if it is in force."""
        return self.kv.named("LMCacheMPConnector")

    @property
    def offloads(self) -> bool:
        """Whether the launch keeps KV outside the device."""
        if self.sglang:
            return self.launch.has("--enable-hierarchical-cache", "--enable-lmcache")
        return any(True for _ in self.kv.offloading())

    @cached_property
    def nodes(self) -> int:
        """Machines that one engine spans, from the launch or from the GPUs of one machine."""
        if self.launch.nodes > 1:
            return self.launch.nodes
        per_node = self.facts.gpus
        return math.ceil(self.launch.ranks / per_node) if per_node else 1

    @property
    def local_ranks(self) -> int:
        """Ranks of one engine on one machine."""
        return max(1, self.launch.ranks // self.nodes)

    @property
    def replicas(self) -> int:
        """Engines that run side by side: the object's replicas, or equal launches in the input."""
        declared = (self.launch.resources.replicas or 1) * max(1, self.launch.data_parallel)
        return max(declared, len(self.inputs.twins(self.launch)))

    @property
    def log(self) -> Log | None:
        """The log that belongs to the launch: the only one given."""
        return self.inputs.logs[0] if len(self.inputs.logs) == 1 else None


def make_case(launch: ServerLaunch, inputs: Inputs, facts: Facts) -> Case:
    """Decide which version a launch is checked as: `--engine`, then what the input says, then the newest known."""
    server = {"sglang": "sglang", "lmcache-server": "lmcache", "lmcache-store": "lmcache"}.get(
        launch.server, "vllm"
    )
    chosen, source = engine(server), "newest known"
    if facts.engine is not None and facts.engine.server == server:
        chosen, source = facts.engine, "--engine"
    elif server == "lmcache" and facts.lmcache is not None:
        chosen, source = facts.lmcache, "--lmcache"
    elif launch.version is not None and server != "lmcache":
        chosen, source = _engine(server, launch.version) or chosen, launch.version_source or "the input"
    lmcache, known = engine("lmcache"), False
    if facts.lmcache is not None:
        lmcache, known = facts.lmcache, True
    elif (
        launch.lmcache_version is not None
        and (found := _engine("lmcache", launch.lmcache_version)) is not None
    ):
        lmcache, known = found, True
    return Case(launch, inputs, facts, chosen, source, lmcache, known)


def _engine(server: str, version: str) -> Engine | None:
    """The tables for a version; the oldest known ones for a version older than them."""
    from warmset.errors import InputError
    from warmset.servers import inspected

    try:
        return engine(f"{server}@{version}")
    except InputError:
        try:
            return engine(f"{server}@{inspected(server)[0]}")
        except InputError:
            return None
