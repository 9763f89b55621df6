"""Readings: what a window says for each role (`prompt_tokens`, `load_time`, …), whatever the metric is called there.

The names come from the tables of `servers/`; nothing here knows a metric by name. Every number keeps the name
that it was read from, so that a verdict can cite it.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from warmset.errors import InputError
from warmset.meters.exposition import Labels, Sample
from warmset.meters.quantiles import Histogram
from warmset.meters.series import without
from warmset.meters.window import Window
from warmset.servers import SERVERS, Engine, MetricFact, engine, inspected

# Ranks of one engine count the same tokens and the same seconds; only bytes add up over them.
RANKS = ("tp_rank", "pp_rank", "moe_ep_rank", "worker_id", "role")
# In the order of asking: an engine's page may carry LMCache's metrics beside its own.
_PREFIX = {"vllm": "vllm:", "sglang": "sglang:", "lmcache": "lmcache"}
# Families that exist only where something is configured; they say nothing about the version.
_CONDITIONAL = (
    "kv_offload",
    "simple_kv",
    "nixl",
    "mooncake",
    "hf3fs",
    "hisparse",
    "umbp",
    "lmcache",
    "kv_block",
    "num_requests_kv_fetch",
    "spec_",
    "lora_",
    "diffusion_",
    "corrupted_requests",
    "watermark_",
)
# Families of the OffloadingConnector that only some of its configurations have.
_CONFIGURED_OFFLOAD = ("kv_offload_tiering", "kv_offload_stores_skipped")
# A page with so many families was not written by hand, or cut down to a few: what it lacks says something.
_WHOLE_PAGE = 20


@dataclass(frozen=True, slots=True)
class Reading:
    """A number and the metric that it was read from."""

    value: float
    metric: str


@dataclass(frozen=True, slots=True)
class Readings:
    """A window, read through the metric tables of the server that it came from."""

    window: Window
    engine: Engine
    assumed: bool

    def counter(self, role: str, server: str | None = None, **labels: str) -> Reading | None:
        """The increase of the metric with this role, over series with the given labels; None where absent."""
        for fact in self._facts(role, server):
            for name in _spellings(fact):
                rows = [r for r in self.window.increases.get(name, ()) if _matches(r.labels, labels)]
                if rows:
                    return Reading(_total(rows, fact.unit) * self._scale(fact), name)
                if fact.type == "histogram" and self.window.increases.get(f"{name}_sum"):
                    rows = [r for r in self.window.increases[f"{name}_sum"] if _matches(r.labels, labels)]
                    return Reading(_total(rows, fact.unit), f"{name}_sum")
        return None

    def counter_by(self, role: str, label: str, server: str | None = None) -> dict[str, Reading]:
        """The increase for each value of a label; series without the label are left out."""
        for fact in self._facts(role, server):
            for name in _spellings(fact):
                groups: dict[str, list[Sample]] = defaultdict(list)
                for row in self.window.increases.get(name, ()):
                    value = dict(row.labels).get(label)
                    if value is not None:
                        groups[value].append(row)
                if groups:
                    return {key: Reading(_total(rows, fact.unit), name) for key, rows in groups.items()}
        return {}

    def lifetime(self, role: str, server: str | None = None, **labels: str) -> Reading | None:
        """The counter's own value at the end of the window: everything since the server started."""
        for fact in self._facts(role, server):
            for name in _spellings(fact):
                for shown in (name, f"{name}_sum") if fact.type == "histogram" else (name,):
                    rows = [r for r in self.window.ends.get(shown, ()) if _matches(r.labels, labels)]
                    if rows:
                        return Reading(_total(rows, fact.unit) * self._scale(fact), shown)
        return None

    def histogram(self, role: str, server: str | None = None, **labels: str) -> tuple[Histogram, str] | None:
        """The histogram of a role, and its name."""
        for fact in self._facts(role, server):
            for name in _spellings(fact):
                found = self.window.histogram(name, **labels)
                if found is not None and found.bounds:
                    return found, name
        return None

    def gauges(self, role: str, server: str | None = None) -> tuple[list[float], str] | None:
        """The last values of a gauge, once per engine (ranks repeat the same value)."""
        for fact in self._facts(role, server):
            for name in _spellings(fact):
                rows = self.window.ends.get(name)
                if rows:
                    return list(_per_engine(rows).values()), name
        return None

    def information(self, role: str) -> list[dict[str, str]]:
        """The labels of an information metric, one mapping per series."""
        for fact in self._facts(role, None):
            rows = self.window.information(fact.name)
            if rows:
                return rows
        return []

    def exported(self, prefix: str) -> bool:
        """Whether any series starts with this prefix."""
        return any(name.startswith(prefix) and rows for name, rows in self.window.ends.items())

    def moved(self, prefix: str) -> bool:
        """Whether any counter with this prefix grew."""
        return any(
            name.startswith(prefix) and any(row.value > 0 for row in rows)
            for name, rows in self.window.increases.items()
        )

    def _facts(self, role: str, server: str | None) -> tuple[MetricFact, ...]:
        if server is None or server == self.engine.server:
            return _by_role(self.engine, role)
        return _any_version(server, role)

    def _scale(self, fact: MetricFact) -> float:
        """Tokens per unit of the counter: 0.8.5 counted blocks."""
        return self.block_tokens if fact.unit == "blocks" and fact.role.endswith("_tokens") else 1.0

    @property
    def block_tokens(self) -> float:
        """Tokens per block of the device pool; the default's where the server does not tell."""
        sizes = [
            int(row["block_size"])
            for row in self.information("cache_config_info")
            if row.get("block_size", "").isdigit()
        ]
        return float(sizes[0]) if sizes and 0 < sizes[0] < 2**20 else 16.0


def read(window: Window, given: Engine | None = None) -> Readings:
    """Readings of a window; the server's version is guessed from the metric names unless it is given.

    Raises InputError where the given server is not the one that the metrics are of.
    """
    if given is not None:
        names = [
            name for name in (*window.ends, *window.increases) if name.startswith(tuple(_PREFIX.values()))
        ]
        if names and not any(name.startswith(_PREFIX[given.server]) for name in names):
            raise InputError(
                f"there is no metric of `{given.server}` in this window, but such as `{names[0]}`",
                hint="leave `--engine` out, or name the server that these metrics are of",
            )
    return Readings(window, given or identify(window), assumed=given is None)


def identify(window: Window) -> Engine:
    """The server and the newest known version whose always-exported metrics are those of the window."""
    names = set(window.ends) | set(window.increases)
    server = next(
        (s for s, prefix in _PREFIX.items() if any(n.startswith(prefix) for n in names)),
        "vllm",
    )
    seen = {_family(name) for name in names if name.startswith((f"{server}:", "lmcache_mp"))}
    offloads = any(name.startswith("vllm:kv_offload_") for name in seen)
    present = {name for name in seen if not _is_conditional(name, offloads)}
    whole = len(present) >= _WHOLE_PAGE
    # From a Prometheus server only what has a role is fetched: that the rest is missing says nothing.
    only_roles = present <= _with_role(server)
    best, best_score = engine(server), -math.inf
    for version in reversed(inspected(server)):
        known, hidden = _names(server, str(version), offloads)
        if only_roles:
            known &= _with_role(server)
        # A name that the version lacks is proof against it; a name that a whole page lacks speaks against it, too.
        score = -10 * len(present - known - hidden) - len(present & hidden)
        if whole:
            score -= len(known - present)
        if score > best_score:
            best, best_score = engine(f"{server}@{version}"), score
    return best


@cache
def _with_role(server: str) -> frozenset[str]:
    versions = (engine(f"{server}@{version}") for version in inspected(server))
    return frozenset(metric.name for target in versions for metric in target.metrics() if metric.role)


@cache
def _names(server: str, version: str, offloads: bool) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a version always exports, and those that it hides unless asked."""
    metrics = [m for m in engine(f"{server}@{version}").metrics() if not _is_conditional(m.name, offloads)]
    hidden = frozenset(m.name for m in metrics if not m.shown)
    return frozenset(m.name for m in metrics) - hidden, hidden


def _is_conditional(name: str, offloads: bool) -> bool:
    rest = name.partition(":")[2]
    if offloads and rest.startswith("kv_offload") and not rest.startswith(_CONFIGURED_OFFLOAD):
        return False  # this connector registers them all
    return rest.startswith(_CONDITIONAL)


def _family(name: str) -> str:
    for suffix in ("_bucket", "_sum", "_count", "_created"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


@cache
def _by_role(target: Engine, role: str) -> tuple[MetricFact, ...]:
    """The metrics with this role: those of the version first, then those of other versions, newest first."""
    own = [m for m in target.metrics() if m.role == role]
    names = {m.name for m in own}
    return (*own, *(m for m in _any_version(target.server, role) if m.name not in names))


@cache
def _any_version(server: str, role: str) -> tuple[MetricFact, ...]:
    assert server in SERVERS
    found: dict[str, MetricFact] = {}
    for version in reversed(inspected(server)):
        for metric in engine(f"{server}@{version}").metrics():
            if metric.role == role:
                found.setdefault(metric.name, metric)
    return tuple(found.values())


def _spellings(fact: MetricFact) -> tuple[str, ...]:
    """The name as exposed, and as exporters write it that drop `_total`."""
    short = fact.name.removesuffix("_total")
    return (fact.name,) if short == fact.name or fact.type != "counter" else (fact.name, short)


def _total(rows: Iterable[Sample], unit: str) -> float:
    if unit == "bytes":
        return math.fsum(row.value for row in rows)
    return math.fsum(_per_engine(rows).values())


def _per_engine(rows: Iterable[Sample]) -> dict[Labels, float]:
    best: dict[Labels, float] = {}
    for labels, value in rows:
        key = without(labels, *RANKS)
        best[key] = max(best[key], value) if key in best else value
    return best


def _matches(labels: Labels, wanted: dict[str, str]) -> bool:
    if not wanted:
        return True
    values = dict(labels)
    return all(values.get(name) == value for name, value in wanted.items())
