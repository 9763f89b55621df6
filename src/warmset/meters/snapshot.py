"""A snapshot: what one or many servers said at one moment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from warmset.errors import InputError
from warmset.meters.exposition import Labels, Sample, parse
from warmset.meters.matchers import Matchers

# Everything that a meter, a dashboard or the reset rules read; the rest of a page is checked and dropped.
PREFIXES = ("vllm:", "sglang:", "lmcache:", "lmcache_mp", "process_start_time_seconds", "warmset_")
# Written by `warmset snapshot`, so that a pair of files knows how far apart it was taken.
SCRAPE_TIME = "warmset_scrape_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Samples by exposed name, with what is known about when and where they were taken.

    Attributes:
        samples: rows by name as exposed; a snapshot of several servers tells them apart by the label `instance`.
        types: metric types by family name, as the pages declared them.
        time_seconds: Unix time of the scrape, None where unknown.
        sources: files or addresses.
        failures: addresses that gave nothing, with the reason.
        notes: what was odd on the pages.
    """

    samples: dict[str, list[Sample]]
    types: dict[str, str]
    time_seconds: float | None = None
    sources: tuple[str, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether any series of this name is here."""
        return bool(self.samples.get(name))


def scrape(text: str, *, source: str = "", time_seconds: float | None = None) -> Snapshot:
    """Read a page of metrics (or a file that `warmset snapshot` wrote) into a snapshot.

    Raises InputError for text that is no page of metrics; the message names `source` and the line.
    """
    try:
        page = parse(text, wanted=lambda name: name.startswith(PREFIXES))
    except InputError as error:
        where = f"`{source}`: " if source else ""
        raise InputError(f"{where}{error.message}", hint=error.hint) from None
    # OpenTelemetry's own names have dots, and servers that were asked for UTF-8 keep them.
    samples = {
        name.replace(".", "_") if name.startswith("lmcache_mp.") else name: rows
        for name, rows in page.samples.items()
    }
    times = [row.value for row in samples.get(SCRAPE_TIME, ())]
    if times:
        time_seconds = sum(times) / len(times)
    elif time_seconds is None:
        time_seconds = page.time_seconds
    return Snapshot(samples, page.types, time_seconds, (source,) if source else (), (), page.notes)


def merge(snapshots: Sequence[tuple[str, Snapshot]], failures: Iterable[tuple[str, str]] = ()) -> Snapshot:
    """One snapshot of many servers: every series gets the label `instance` with its server's name.

    A page that already tells instances apart (a federation page) keeps its own labels.
    """
    samples: dict[str, list[Sample]] = {}
    types: dict[str, str] = {}
    for instance, snapshot in snapshots:
        added: dict[int, Labels] = {}
        for name, rows in snapshot.samples.items():
            out = samples.setdefault(name, [])
            for labels, value in rows:
                labelled = added.get(id(labels))
                if labelled is None:
                    labelled = added[id(labels)] = with_instance(labels, instance)
                out.append(Sample(labelled, value))
        types.update(snapshot.types)
    times = [s.time_seconds for _, s in snapshots if s.time_seconds is not None]
    return Snapshot(
        samples,
        types,
        sum(times) / len(times) if times else None,
        tuple(instance for instance, _ in snapshots),
        tuple(failures),
        tuple(dict.fromkeys(note for _, s in snapshots for note in s.notes)),
    )


def with_instance(labels: Labels, instance: str) -> Labels:
    """The labels with `instance` set, unless they have one."""
    if any(name == "instance" for name, _ in labels):
        return labels
    return tuple(sorted((*labels, ("instance", instance))))


def renamed(snapshot: Snapshot, instance: str) -> Snapshot:
    """The page of one server under another `instance`; empty takes the label away."""

    def relabelled(labels: Labels) -> Labels:
        bare = tuple(pair for pair in labels if pair[0] != "instance")
        return with_instance(bare, instance) if instance else bare

    samples = {
        name: [Sample(relabelled(labels), value) for labels, value in rows]
        for name, rows in snapshot.samples.items()
    }
    return replace(snapshot, samples=samples)


def select(snapshot: Snapshot, matchers: Matchers) -> Snapshot:
    """Only the series whose labels match.

    Process-wide series (start times) are kept. Raises InputError where nothing is left.
    """
    if not matchers:
        return snapshot

    def wanted(labels: Labels) -> bool:
        values = dict(labels)
        return all(matcher.holds(values) for matcher in matchers)

    samples = {
        name: rows
        if name.startswith(("process_", "warmset_"))
        else [row for row in rows if wanted(row.labels)]
        for name, rows in snapshot.samples.items()
    }
    if not any(rows for name, rows in samples.items() if not name.startswith(("process_", "warmset_"))):
        shown = ", ".join(map(str, matchers))
        raise InputError(f"no series has `{shown}`", hint="see the labels on the page, such as `model_name`")
    return replace(snapshot, samples=samples)


def write_exposition(page: Snapshot) -> str:
    """A page as text in the classic format; reading it again gives the same samples."""
    lines: list[str] = []
    declared: set[str] = set()
    for name, rows in page.samples.items():
        family = _family(name, page.types)
        if family in page.types and family not in declared:
            declared.add(family)
            lines.append(f"# TYPE {family} {page.types[family]}")
        lines.extend(f"{name}{_braces(labels)} {value!r}" for labels, value in rows)
    return "\n".join(lines) + "\n"


def _family(name: str, types: dict[str, str]) -> str:
    if name in types:
        return name
    for suffix in ("_bucket", "_sum", "_count", "_total"):
        if name.endswith(suffix) and name.removesuffix(suffix) in types:
            return name.removesuffix(suffix)
    return name


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
