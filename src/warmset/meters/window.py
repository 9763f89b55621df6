"""A window: what happened between two scrapes, with resets told apart from work.

Two saved scrapes give exact differences. Ranges of samples give what Prometheus would answer (`rates.py`).
Either way the result is one `Window`, and nothing after it knows where the numbers came from.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warmset.errors import InputError
from warmset.meters.exposition import Labels, Sample
from warmset.meters.quantiles import Histogram, merged
from warmset.meters.snapshot import Snapshot, renamed

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
# No counter of a server comes near this; a larger value is damage, and would overflow what is computed from it.
MOST = 1e18
# Below this a value is the rounding of a zero, and would overflow what is divided by it.
LEAST = 1e-12
_DISTRIBUTION = ("_bucket", "_count", "_sum")


@dataclass(frozen=True, slots=True)
class Window:
    """Increases of counters and histograms over a stretch of time.

    Attributes:
        increases: by exposed name; histograms as their `_bucket`, `_count` and `_sum` series.
        ends: the last value of every series, for gauges and information metrics.
        seconds: length, None where the scrapes carry no time.
        since_start: the window runs from the start of the server (a single scrape).
        instances: servers in the window.
        failures: servers that gave nothing, with the reason.
        notes: resets, restarts and other things that a reader must know.
        suspects: reasons to distrust the counters; a verdict is not drawn from them.
    """

    increases: Mapping[str, Sequence[Sample]]
    ends: Mapping[str, Sequence[Sample]]
    seconds: float | None
    since_start: bool = False
    instances: tuple[str, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the window has any series of this exposed name."""
        return bool(self.increases.get(name) or self.ends.get(name))

    def increase(self, name: str, **labels: str) -> float | None:
        """The summed increase of a counter over series with the given labels; None where it is absent."""
        rows = self.increases.get(name)
        if not rows:
            return None
        return math.fsum(row.value for row in rows if _carries(row.labels, labels))

    def increase_by(self, name: str, label: str) -> dict[str, float]:
        """The summed increase of a counter for each value of a label."""
        found: dict[str, float] = defaultdict(float)
        for labels, value in self.increases.get(name, ()):
            found[dict(labels).get(label, "")] += value
        return dict(found)

    def histogram(self, name: str, **labels: str) -> Histogram | None:
        """The histogram of a family, summed over its series; None where it is absent.

        Series with different buckets are added at the bounds that all share.
        """
        parts: dict[Labels, dict[float, float]] = defaultdict(dict)
        for row in self.increases.get(f"{name}_bucket", ()):
            if _carries(row.labels, labels):
                bound = _bound(row.labels)
                if bound is not None:
                    group = parts[without(row.labels, "le")]
                    group[bound] = group.get(bound, 0.0) + row.value
        counts = dict(self.increases.get(f"{name}_count", ()))
        sums = dict(self.increases.get(f"{name}_sum", ()))
        histograms = []
        for group_labels, buckets in parts.items():
            bounds = tuple(sorted(buckets))
            if not bounds or bounds[-1] != math.inf:
                continue
            total = counts.get(group_labels, buckets[math.inf])
            histograms.append(
                Histogram(bounds, tuple(buckets[b] for b in bounds), sums.get(group_labels, 0.0), total)
            )
        return merged(histograms)[0]

    def gauges(self, name: str, **labels: str) -> list[float]:
        """The last values of a gauge."""
        return [row.value for row in self.ends.get(name, ()) if _carries(row.labels, labels)]

    def information(self, name: str) -> list[dict[str, str]]:
        """The labels of an information metric (a gauge that is always 1)."""
        return [dict(row.labels) for row in self.ends.get(name, ())]


def window(start: Snapshot | None, end: Snapshot) -> Window:
    """The exact differences between two snapshots; without `start`, everything since the servers started.

    A counter that fell, a changed `_created` time or a changed process start means a reset: the value then counts from
    zero, and for a histogram all of its series together. Series that appear count from zero. A server that only
    the second snapshot has is left out unless it started in between. Raises InputError where the second page is
    evidently cut short.
    """
    end, own_notes = without_router(end)
    if start is None:
        return _since_start(end, own_notes)
    start, _ = without_router(start)
    start, end, named = _one_server(start, end)
    seconds = _seconds_between(start, end)
    _refuse_swapped(start, end)
    _refuse_shrunk(start, end)
    notes = list(dict.fromkeys((*start.notes, *end.notes, *own_notes, *named)))
    suspects: list[str] = []
    fate = _fates(start, end, notes, suspects)
    created_before, created_after = _created(start), _created(end)
    before = {name: dict(rows) for name, rows in start.samples.items()}
    reset = _reset_groups(before, end, created_before, created_after)
    increases: dict[str, list[Sample]] = {}
    for name, rows in end.samples.items():
        if not accumulates(name, end.types):
            continue
        old, out = before.get(name, {}), []
        for labels, value in rows:
            instance = _instance(labels)
            if fate.get(instance) == "left out":
                continue
            previous = old.get(labels, 0.0)
            restarted = fate.get(instance) == "restarted"
            if restarted or (_base(name), _who(name, labels)) in reset:
                previous = 0.0
            out.append(Sample(labels, value - previous))
        increases[name] = out
    if reset:
        notes.append(
            f"{len(reset)} counters were reset in the window; they count from zero, and what came before the "
            f"reset is lost"
        )
    usable, strange = without_strange(increases)
    suspects.extend(strange)
    return Window(
        usable,
        without_strange(end.samples)[0],
        seconds,
        instances=tuple(sorted(_instances(end))),
        failures=tuple(dict.fromkeys((*start.failures, *end.failures))),
        notes=tuple(notes),
        suspects=tuple(suspects),
    )


def without_router(snapshot: Snapshot) -> tuple[Snapshot, tuple[str, ...]]:
    """Drop the copies of engine metrics that a router exports under the same names, without `model_name`.

    Where no series has that label (pages written by hand, stripped labels) everything is kept.
    """
    names = [name for name in snapshot.samples if name.startswith("vllm:")]
    labelled = any(_has(row.labels, "model_name") for name in names for row in snapshot.samples[name])
    routed = any(_has(row.labels, "server") for name in names for row in snapshot.samples[name])
    if not labelled:
        if routed:
            raise InputError(
                "this is a router's page: its `vllm:` series are copies without engine labels",
                hint="give the addresses of the engines themselves",
            )
        return snapshot, ()
    samples, dropped = dict(snapshot.samples), 0
    for name in names:
        rows = snapshot.samples[name]
        kept = [row for row in rows if _has(row.labels, "model_name") or _engine_wide(row.labels)]
        dropped += len(rows) - len(kept)
        samples[name] = kept
    if not dropped:
        return snapshot, ()
    note = f"{dropped} series without `model_name` (a router's copies) are not counted"
    return Snapshot(
        samples, snapshot.types, snapshot.time_seconds, snapshot.sources, snapshot.failures, snapshot.notes
    ), (note,)


def without(labels: Labels, *names: str) -> Labels:
    """The labels less the named ones."""
    return tuple(pair for pair in labels if pair[0] not in names)


def _since_start(end: Snapshot, notes: tuple[str, ...]) -> Window:
    increases = {name: rows for name, rows in end.samples.items() if accumulates(name, end.types)}
    starts = [row.value for row in end.samples.get(PROCESS_START, ())]
    seconds = end.time_seconds - min(starts) if starts and end.time_seconds is not None else None
    usable, strange = without_strange(increases)
    return Window(
        usable,
        without_strange(end.samples)[0],
        seconds if seconds is not None and seconds > 0 else None,
        since_start=True,
        instances=tuple(sorted(_instances(end))),
        failures=end.failures,
        notes=(*end.notes, *notes),
        suspects=strange,
    )


def _one_server(start: Snapshot, end: Snapshot) -> tuple[Snapshot, Snapshot, tuple[str, ...]]:
    """Give two pages of one server each the same name: a page saved by hand has none, and an address has many."""
    old, new = _instances(start), _instances(end)
    if len(old) != 1 or len(new) != 1 or old == new:
        return start, end, ()
    (before,), (after,) = old, new
    name = after or before
    note = f"`{before}` and `{after}` are taken for one server" if before and after else None
    return renamed(start, name), renamed(end, name), (note,) if note else ()


def _seconds_between(start: Snapshot, end: Snapshot) -> float | None:
    if start.time_seconds is None or end.time_seconds is None:
        return None
    seconds = end.time_seconds - start.time_seconds
    if seconds <= 0:
        raise InputError(
            f"the second scrape was taken {-seconds:.0f} s before the first"
            if seconds
            else "both scrapes are the same one",
            hint="give the earlier scrape first",
        )
    return seconds


def _fates(start: Snapshot, end: Snapshot, notes: list[str], suspects: list[str]) -> dict[str, str]:
    """What became of each server: `restarted` or `left out`; others ran through."""
    began_before = {_instance(row.labels): row.value for row in start.samples.get(PROCESS_START, ())}
    began_after = {_instance(row.labels): row.value for row in end.samples.get(PROCESS_START, ())}
    old, new = _instances(start), _instances(end)
    fate: dict[str, str] = {}
    for instance in sorted(new):
        began = began_after.get(instance)
        named = f"`{instance}`" if instance else "the server"
        if instance not in old and len(old) + len(new) > 2:
            inside = began is not None and start.time_seconds is not None and began >= start.time_seconds
            if not inside:
                fate[instance] = "left out"
                notes.append(f"{named} is only in the second scrape and did not start in between: left out")
        elif began is not None and instance in began_before:
            previous = began_before[instance]
            if began > previous:
                fate[instance] = "restarted"
                notes.append(f"{named} restarted in the window: its counters count from the restart")
                if start.time_seconds is not None and began < start.time_seconds - 1:
                    suspects.append(
                        f"{named} answers from more than one process (a load balancer?): the second scrape is from "
                        "another process that already ran at the first"
                    )
            elif began < previous:
                suspects.append(
                    f"{named} answers from more than one process (a load balancer?): the process of the second "
                    "scrape is older than that of the first"
                )
    notes.extend(
        f"`{instance}` is gone from the second scrape: left out" for instance in sorted(old - new) if instance
    )
    return fate


def _created(snapshot: Snapshot) -> dict[tuple[str, Labels], float]:
    return {
        (name.removesuffix("_created"), labels): value
        for name, rows in snapshot.samples.items()
        if name.endswith("_created")
        for labels, value in rows
    }


def _reset_groups(
    before: Mapping[str, Mapping[Labels, float]],
    end: Snapshot,
    created_before: Mapping[tuple[str, Labels], float],
    created_after: Mapping[tuple[str, Labels], float],
) -> set[tuple[str, Labels]]:
    """(family, labels) that were reset: a histogram as a whole, and every counter of the same process with it."""
    reset: set[tuple[str, Labels]] = set()
    processes: set[Labels] = set()
    groups: dict[Labels, set[tuple[str, Labels]]] = defaultdict(set)
    for name, rows in end.samples.items():
        if not accumulates(name, end.types):
            continue
        old = before.get(name, {})
        for labels, value in rows:
            key = (_base(name), _who(name, labels))
            process = tuple(pair for pair in labels if pair[0] in IDENTITY)
            groups[process].add(key)
            # A sum may fall without a reset where negative observations exist.
            fell = not name.endswith("_sum") and value < old.get(labels, 0.0)
            was, now = created_before.get(key), created_after.get(key)
            if fell or (was is not None and now is not None and now > was):
                reset.add(key)
                processes.add(process)
    # What was created at the same moment in both scrapes ran through, whatever became of the others.
    through = {key for key, was in created_before.items() if created_after.get(key) == was}
    for process in processes:
        reset |= groups[process] - through
    return reset


def without_strange(
    samples: Mapping[str, Sequence[Sample]],
) -> tuple[Mapping[str, Sequence[Sample]], tuple[str, ...]]:
    """The series without values that nothing can be counted with (no number, infinite, absurd, a falling counter), and
    a sentence for each name that had some. A sum may fall, where negative observations exist.
    """
    kept: dict[str, Sequence[Sample]] = {}
    strange: dict[str, str] = {}
    for name, rows in samples.items():
        lowest = -MOST if name.endswith("_sum") else 0.0
        if all(lowest <= row.value <= MOST and not 0 < row.value < LEAST for row in rows):
            kept[name] = rows
            continue
        kept[name] = [
            Sample(row.labels, row.value if abs(row.value) >= LEAST else 0.0)
            for row in rows
            if lowest <= row.value <= MOST
        ]
        if len(kept[name]) == len(rows):
            continue
        worst = next(row.value for row in rows if not lowest <= row.value <= MOST)
        strange[name] = f"{name} is not a usable counter: {worst:g}"
    return kept, tuple(strange.values())[:5]


def _refuse_swapped(start: Snapshot, end: Snapshot) -> None:
    """The counters of a process only grow: where they only fall, the pages came in the wrong order."""
    before = set(start.samples.get(PROCESS_START, ()))
    if not before or before != set(end.samples.get(PROCESS_START, ())):
        return
    fallen = None
    for name, rows in end.samples.items():
        # A sum may fall where negative observations exist.
        if not accumulates(name, end.types) or name.endswith("_sum"):
            continue
        old = dict(start.samples.get(name, ()))
        for labels, value in rows:
            previous = old.get(labels, 0.0)
            if value > previous:
                return
            if value < previous:
                fallen = fallen or name
    if fallen is not None:
        raise InputError(
            f"every counter that changed fell, such as `{fallen}`, though the process is the same: the second "
            "scrape is the earlier one",
            hint="give the earlier scrape first",
        )


def _refuse_shrunk(start: Snapshot, end: Snapshot) -> None:
    """A process does not lose metrics: if the second page lacks some, it was cut short."""
    before = set(start.samples.get(PROCESS_START, ()))
    after = set(end.samples.get(PROCESS_START, ()))
    if not before or before != after:
        return
    lost = [name for name, rows in start.samples.items() if rows and not end.samples.get(name)]
    if lost:
        raise InputError(
            f"the second scrape lacks {len(lost)} metrics that the first has, such as `{lost[0]}`",
            hint="the page is cut short; fetch it again with `warmset snapshot URL`",
        )


def accumulates(name: str, types: Mapping[str, str]) -> bool:
    """Whether a series only ever grows: counters, and the parts of histograms."""
    if name.endswith("_created") or name == PROCESS_START or name.startswith("warmset_"):
        return False
    kind = types.get(name) or types.get(name.removesuffix("_total"))
    if kind in ("gauge", "info", "stateset"):
        return False
    if kind is None:
        for suffix in _DISTRIBUTION:
            if name.endswith(suffix):
                family = types.get(name.removesuffix(suffix))
                return family not in ("gauge", "gaugehistogram")
    return True


def _base(name: str) -> str:
    for suffix in (*_DISTRIBUTION, "_total"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def _who(name: str, labels: Labels) -> Labels:
    return without(labels, "le") if name.endswith("_bucket") else labels


def _bound(labels: Labels) -> float | None:
    text = dict(labels).get("le")
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _carries(labels: Labels, wanted: Mapping[str, str]) -> bool:
    if not wanted:
        return True
    values = dict(labels)
    return all(values.get(name) == value for name, value in wanted.items())


def _has(labels: Labels, name: str) -> bool:
    return any(pair[0] == name for pair in labels)


def _engine_wide(labels: Labels) -> bool:
    """Series of the engine that never carry a model name, in some versions."""
    return _has(labels, "engine")


def _instance(labels: Labels) -> str:
    return next((value for name, value in labels if name == "instance"), "")


def _instances(snapshot: Snapshot) -> set[str]:
    return {
        _instance(row.labels)
        for name, rows in snapshot.samples.items()
        if not name.startswith("warmset_")
        for row in rows
    }
