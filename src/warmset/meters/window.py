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
from warmset.meters.pairing import (
    created,
    fates,
    gone,
    one_server,
    refuse_other_models,
    refuse_shrunk,
    refuse_swapped,
    reset_groups,
    seconds_between,
)
from warmset.meters.quantiles import Histogram, merged
from warmset.meters.series import (
    PROCESS_START,
    accumulates,
    base,
    instance_of,
    instances,
    is_read,
    remembered,
    who,
    without,
)
from warmset.meters.snapshot import Snapshot

# No counter of a server comes near this; a larger value is damage, and would overflow what is computed from it.
MOST = 1e18
# Below this a value is the rounding of a zero, and would overflow what is divided by it.
LEAST = 1e-12


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
    start, end, named = one_server(start, end)
    seconds = seconds_between(start, end)
    refuse_swapped(start, end)
    refuse_shrunk(start, end)
    notes = list(dict.fromkeys((*start.notes, *end.notes, *own_notes, *named)))
    suspects: list[str] = []
    fate = fates(start, end, notes, suspects)
    refuse_other_models(start, end, "restarted" in fate.values())
    notes.extend(gone(start, end))
    created_before, created_after = created(start), created(end)
    before = {name: dict(rows) for name, rows in start.samples.items()}
    reset = reset_groups(before, end, created_before, created_after)
    fate_of = remembered(lambda labels: fate.get(instance_of(labels)))
    increases: dict[str, list[Sample]] = {}
    for name, rows in end.samples.items():
        if not accumulates(name, end.types):
            continue
        old, out = before.get(name, {}), []
        for labels, value in rows:
            became = fate_of(labels)
            if became == "left out":
                continue
            previous = old.get(labels, 0.0)
            if became == "restarted" or (reset and (base(name), who(name, labels)) in reset):
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
        instances=tuple(sorted(instances(end))),
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
    routed = not labelled and any(
        _has(row.labels, "server") for name in names for row in snapshot.samples[name]
    )
    if not labelled:
        if routed:
            raise InputError(
                "this is a router's page: its `vllm:` series are copies without engine labels",
                hint="give the addresses of the engines themselves",
            )
        return snapshot, ()
    samples, dropped = dict(snapshot.samples), 0
    engines_own = remembered(lambda labels: _has(labels, "model_name") or _engine_wide(labels))
    for name in names:
        rows = snapshot.samples[name]
        kept = [row for row in rows if engines_own(row.labels)]
        dropped += len(rows) - len(kept)
        samples[name] = kept
    if not dropped:
        return snapshot, ()
    note = f"{dropped} series without `model_name` (a router's copies) are not counted"
    return Snapshot(
        samples, snapshot.types, snapshot.time_seconds, snapshot.sources, snapshot.failures, snapshot.notes
    ), (note,)


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
        instances=tuple(sorted(instances(end))),
        failures=end.failures,
        notes=(*end.notes, *notes),
        suspects=strange,
    )


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
        if len(kept[name]) == len(rows) or not is_read(name):
            continue
        worst = next(row.value for row in rows if not lowest <= row.value <= MOST)
        strange[name] = f"{name} is not a usable counter: {worst:g}"
    return kept, tuple(strange.values())[:5]


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
