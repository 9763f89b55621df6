"""One server in one version, and every question that may be asked about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from warmset.errors import InputError, UnknownName
from warmset.servers.facts import (
    ConnectorFact,
    EnvFact,
    Fact,
    FieldFact,
    FlagFact,
    KeyFact,
    Kind,
    MetricFact,
    Removal,
    RuleFact,
)
from warmset.servers.tables import SERVERS, facts, inspected
from warmset.servers.version import Version, parse

_KINDS: tuple[Kind, ...] = ("flag", "connector", "config_field", "extra_key", "env", "metric")


@dataclass(frozen=True, slots=True)
class Engine:
    """A server in one version; build it with `engine("vllm@0.32")`.

    Attributes:
        server: `vllm`, `lmcache` or `sglang`.
        version: the version asked for; a minor alone (`0.11`) means its newest known patch.
        facts_version: the inspected release whose facts are used.
        assumed_newest: the version is newer than any known, and behaves here as the newest known.
        notes: what a reader must be told about the version.
    """

    server: str
    version: Version
    facts_version: Version
    assumed_newest: bool = False
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.server}@{self.version}"

    def has_flag(self, name: str) -> bool:
        """Whether this version's command line takes the flag; `--no-x` counts where `--x` is a switch."""
        return self.flag(name) is not None

    def flag(self, name: str) -> FlagFact | None:
        """The flag, by its long name; underscores and `--flag=value` are read as the server reads them."""
        plain = "--" + name.split("=", 1)[0].lstrip("-").replace("_", "-")
        found = self._index("flag").get(plain)
        if found is None and plain.startswith("--no-"):
            found = self._index("flag").get("--" + plain.removeprefix("--no-"))
        return found

    def flags(self) -> tuple[FlagFact, ...]:
        """Every flag that this version takes."""
        return tuple(self._index("flag").values())

    def connector(self, name: str) -> ConnectorFact | None:
        """A connector registered under this name."""
        return self._index("connector").get(("connector", name))

    def spec(self, name: str) -> ConnectorFact | None:
        """An offloading spec (`spec_name`) registered under this name."""
        return self._index("connector").get(("spec", name))

    def tier(self, name: str) -> ConnectorFact | None:
        """A kind of lower tier (`type` in `secondary_tiers`, or an adapter of LMCache's server)."""
        return self._index("connector").get(("tier", name))

    def connectors(self, kind: str = "connector") -> tuple[ConnectorFact, ...]:
        """Every connector (or every `spec`, or every `tier`) of this version."""
        return tuple(c for c in self._index("connector").values() if c.kind == kind)

    def config_fields(self, config: str = "KVTransferConfig") -> Mapping[str, FieldFact]:
        """The fields of a config object, by name."""
        return {f.name: f for f in self._index("config_field").values() if f.config == config}

    def extra_config_keys(
        self, connector: str, spec: str | None = None, tier: str | None = None
    ) -> Mapping[str, KeyFact]:
        """The keys that a connector reads from `kv_connector_extra_config`, by name.

        With `spec` only those that this spec reads (without: the union over all specs). With `tier`, the keys
        of that tier's own table instead; a nested key reads `store_config.bucket`.
        """
        return {
            key.name: key
            for key in self._index("extra_key").values()
            if key.connector == connector
            and key.tier == (tier or "")
            and (spec is None or key.spec in ("", spec))
        }

    def env(self, name: str) -> EnvFact | None:
        """An environment variable that this version reads."""
        return self._index("env").get(name)

    def envs(self) -> tuple[EnvFact, ...]:
        """Every environment variable known for this version."""
        return tuple(self._index("env").values())

    def rule(self, key: str) -> RuleFact | None:
        """A default or rule of behaviour with its meaning; None where this version has none.

        Raises KeyError for a key that no version of the server has: a slip in the caller.
        """
        if not any(isinstance(fact, RuleFact) and fact.key == key for fact in facts(self.server, "rule")):
            raise KeyError(f"no rule `{key}` is known for {self.server}")
        return self._index("rule").get(key)

    def default(self, key: str) -> Any:
        """The value of a rule, such as `gpu_memory_utilization` → 0.92; None where this version has none."""
        found = self.rule(key)
        return None if found is None else found.value

    def metric(self, role: str) -> MetricFact | None:
        """The metric that measures `role` in this version, or None."""
        return next((m for m in self.metrics() if m.role == role), None)

    def metric_named(self, name: str) -> MetricFact | None:
        """The metric with this name as exposed; suffixes of histograms are understood."""
        index = self._index("metric")
        stems = (name.removesuffix(s) for s in ("", "_bucket", "_sum", "_count", "_created"))
        found: MetricFact | None = next((index[stem] for stem in stems if stem in index), None)
        return found

    def metrics(self) -> tuple[MetricFact, ...]:
        """Every metric that this version exports."""
        return tuple(self._index("metric").values())

    def replaced_by(self, name: str) -> str | None:
        """What stands in for a name (flag, connector, key, field, variable, metric) in this version."""
        gone = self.removed(name)
        if gone is not None:
            return gone.replaced_by
        here = (_find(self._index(kind), name) for kind in _KINDS)
        return next((f.replaced_by for f in here if f is not None and f.replaced_by), None)  # type: ignore[union-attr]

    def removed(self, name: str) -> Removal | None:
        """Says that a name was known to an older version and is gone in this one."""
        for kind in _KINDS:
            if _find(self._index(kind), name) is not None:
                return None
        for kind in _KINDS:
            older = [f for f in facts(self.server, kind) if _name(f) == name and f.until < self.facts_version]
            if older:
                last = max(older, key=lambda f: f.until)
                return Removal(name, kind, last.until, getattr(last, "replaced_by", None), last.meaning)
        return None

    def versions_with(self, kind: Kind, name: str) -> tuple[Version, ...]:
        """The inspected releases that know the name, oldest first."""
        ranges = [(f.since, f.until) for f in facts(self.server, kind) if _name(f) == name]
        return tuple(v for v in inspected(self.server) if any(a <= v <= b for a, b in ranges))

    def _index(self, kind: Kind) -> dict[Any, Any]:
        return _index(self.server, kind, self.facts_version)


def engine(text: str) -> Engine:
    """Read `vllm@0.32`, `vllm` (its newest known version), `lmcache@0.5.6` or `sglang@0.5.23`.

    A minor version means its newest known patch: `vllm@0.11` is 0.11.2. A version between two inspected
    releases takes the facts of the one below it in the same minor, and a version newer than all known behaves as
    the newest known; `notes` says so. Raises UnknownName for another server and InputError for a
    version that is no number or older than the oldest known.
    """
    server, separator, wanted = text.strip().partition("@")
    server = server.strip().lower()
    if server not in SERVERS:
        raise UnknownName("server", server[:40], SERVERS, hint="write it like `vllm@0.32` or `sglang@0.5.23`")
    known = inspected(server)
    oldest, newest = known[0], known[-1]
    if not separator or wanted.strip().lower() in ("latest", "newest"):
        return Engine(server, newest, newest)
    try:
        version, has_patch, suffix = parse(wanted)
    except InputError:
        raise InputError(
            f"engine `{text[:60]}` has no version that can be read",
            hint=f"write it like `{server}@{newest}`",
        ) from None
    notes = [f"{server} {wanted.strip()} is read as {version}"] if suffix else []
    siblings = [v for v in known if (v.major, v.minor) == (version.major, version.minor)]
    if not has_patch and siblings:
        version = siblings[-1]
    if version < oldest and not siblings:
        raise InputError(
            f"{server} `{wanted.strip()}` is older than the oldest known version, {oldest}",
            hint=f"known are {server} {oldest} to {newest}, such as `{server}@{newest}`",
        )
    if version > newest:
        notes.append(f"{server} {version} is newer than the newest known, {newest}, and is treated like it")
        return Engine(server, version, newest, assumed_newest=True, notes=tuple(notes))
    below = [v for v in siblings if v <= version] or siblings[:1] or [v for v in known if v <= version]
    nearest = below[-1]
    if nearest != version:
        notes.append(f"{server} {version} was not inspected; the facts of {nearest} are used")
    return Engine(server, version, nearest, notes=tuple(notes))


@cache
def _index(server: str, kind: Kind, version: Version) -> dict[Any, Any]:
    """The rows that hold for one version, by the key that tells them apart."""
    return {_key(f): f for f in facts(server, kind) if f.since <= version <= f.until}


def _find(index: dict[Any, Any], name: str) -> Fact | None:
    direct: Fact | None = index.get(name)
    return direct or next((f for f in index.values() if _name(f) == name), None)


def _name(fact: Fact) -> str:
    return fact.key if isinstance(fact, RuleFact) else fact.name


def _key(fact: Fact) -> Any:
    match fact:
        case ConnectorFact():
            return fact.kind, fact.name
        case FieldFact():
            return fact.config, fact.name
        case KeyFact():
            return fact.connector, fact.spec, fact.tier, fact.name
        case _:
            return _name(fact)
