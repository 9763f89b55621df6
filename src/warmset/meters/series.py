"""What a series is by its name and labels: what it counts, and who counted."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TypeVar

from warmset.meters.exposition import Labels
from warmset.meters.snapshot import Snapshot
from warmset.servers import SERVERS, engine, inspected

T = TypeVar("T")

PROCESS_START = "process_start_time_seconds"
# Labels that say which process counted, as opposed to what it counted.
IDENTITY = frozenset(
    [
        "instance",
        "job",
        "pod",
        "namespace",
        "node",
        "container",
        "engine",
        "model_name",
        "served_model_name",
        "worker_id",
        "role",
        "dp_rank",
    ]
)
_DISTRIBUTION = ("_bucket", "_count", "_sum")
_GROWING = frozenset({"counter", "histogram", "summary"})
_UNTYPED = frozenset({None, "untyped", "unknown"})


def without(labels: Labels, *names: str) -> Labels:
    """The labels less the named ones."""
    return tuple(pair for pair in labels if pair[0] not in names)


def accumulates(name: str, types: Mapping[str, str]) -> bool:
    """Whether a series only ever grows: counters, and the parts of histograms.

    A page without types (cut down by `grep`, federated) is read by what the tables know, else by the name's suffix.
    """
    if name.endswith("_created") or name == PROCESS_START or name.startswith("warmset_"):
        return False
    kind = types.get(name) or types.get(name.removesuffix("_total")) or types.get(base(name))
    if kind in _GROWING:
        return True
    if kind not in _UNTYPED:
        return False
    known = _known_types()
    kind = known.get(name) or known.get(f"{name}_total") or known.get(base(name))
    return kind in _GROWING if kind else name.endswith((*_DISTRIBUTION, "_total"))


@cache
def _known_types() -> dict[str, str]:
    """Type by family, over all servers and versions."""
    return {
        metric.name: metric.type
        for server in SERVERS
        for version in inspected(server)
        for metric in engine(f"{server}@{version}").metrics()
    }


def is_read(name: str) -> bool:
    """Whether any meter reads a series of this name, in any version."""
    known = _read_names()
    return (
        name in known
        or f"{name}_total" in known
        or any(name.endswith(suffix) and name.removesuffix(suffix) in known for suffix in _DISTRIBUTION)
    )


@cache
def _read_names() -> frozenset[str]:
    return frozenset(
        metric.name
        for server in SERVERS
        for version in inspected(server)
        for metric in engine(f"{server}@{version}").metrics()
        if metric.role
    )


def base(name: str) -> str:
    """The family of a series: its name less what tells the parts of a histogram, or a counter, apart."""
    for suffix in (*_DISTRIBUTION, "_total"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def who(name: str, labels: Labels) -> Labels:
    """The labels of a series less the bound of its bucket."""
    return without(labels, "le") if name.endswith("_bucket") else labels


def instance_of(labels: Labels) -> str:
    """The server that a series is of; empty where it does not say."""
    return next((value for name, value in labels if name == "instance"), "")


def instances(snapshot: Snapshot) -> set[str]:
    """The servers of a page."""
    return {instance_of(labels) for labels in distinct(snapshot)}


def distinct(snapshot: Snapshot) -> Iterable[Labels]:
    """The label sets of a page, once each, as equal ones are one object there; without what warmset wrote itself."""
    return {
        id(labels): labels
        for name, rows in snapshot.samples.items()
        if not name.startswith("warmset_")
        for labels, _ in rows
    }.values()


def remembered(function: Callable[[Labels], T]) -> Callable[[Labels], T]:
    """`function`, worked out once per label set; for sets of pages that live as long as it does."""
    known: dict[int, T] = {}

    def look_up(labels: Labels) -> T:
        key = id(labels)
        if key not in known:
            known[key] = function(labels)
        return known[key]

    return look_up
