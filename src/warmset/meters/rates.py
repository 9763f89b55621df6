"""Increases over ranges of samples, exactly as Prometheus extrapolates them.

Source: promql/functions.go, extrapolatedRate (2.42). Each series is judged alone: a fall is a reset, and the
value before it is added.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from warmset.meters.exposition import Labels, Sample
from warmset.meters.series import PROCESS_START, accumulates
from warmset.meters.snapshot import Snapshot
from warmset.meters.window import Window, without_router, without_strange
from warmset.units import format_counted


@dataclass(slots=True)
class Track:
    """All that an increase needs to know of a series' samples, however many they are."""

    first_seconds: float
    first: float
    last_seconds: float
    last: float
    lost: float = 0.0
    samples: int = 1

    def add(self, seconds: float, value: float) -> None:
        """Take in the next sample."""
        if value < self.last:
            self.lost += self.last
        self.last_seconds, self.last = seconds, value
        self.samples += 1


def track(samples: Iterable[tuple[float, float]]) -> Track | None:
    """The track of (seconds, value) pairs in order of time; None without any."""
    found: Track | None = None
    for seconds, value in samples:
        if found is None:
            found = Track(seconds, value, seconds, value)
        else:
            found.add(seconds, value)
    return found


def increase(series: Track | None, start_seconds: float, end_seconds: float) -> float | None:
    """Prometheus' `increase` over [start, end]; None with fewer than two samples."""
    if series is None or series.samples < 2:
        return None
    gained = series.last - series.first + series.lost
    sampled = series.last_seconds - series.first_seconds
    if sampled <= 0:
        return None
    spacing = sampled / (series.samples - 1)
    to_start, to_end = series.first_seconds - start_seconds, end_seconds - series.last_seconds
    if gained > 0 and series.first >= 0:
        # A counter cannot have been below zero: do not extrapolate past the moment it would have been.
        to_start = min(to_start, sampled * (series.first / gained))
    threshold = spacing * 1.1
    reach = sampled
    reach += to_start if to_start < threshold else spacing / 2
    reach += to_end if to_end < threshold else spacing / 2
    return gained * (reach / sampled)


def rate(series: Track | None, start_seconds: float, end_seconds: float) -> float | None:
    """Prometheus' `rate` over [start, end], per second; None with fewer than two samples."""
    gained = increase(series, start_seconds, end_seconds)
    return None if gained is None else gained / (end_seconds - start_seconds)


@dataclass(slots=True)
class Recorder:
    """Takes in snapshots one after the other and keeps one track per series: memory does not grow with time."""

    tracks: dict[str, dict[Labels, Track]] = field(default_factory=dict)
    last: Snapshot | None = None
    times: list[float] = field(default_factory=list)
    starts: dict[str, float] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    suspects: dict[str, None] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def add(self, snapshot: Snapshot) -> None:
        """Take in the next snapshot; it must carry its time."""
        assert snapshot.time_seconds is not None
        seconds = snapshot.time_seconds
        snapshot, _ = without_router(snapshot)
        self._note_processes(snapshot)
        self.failed.update(snapshot.failures)
        previous, known = (self.times[-1] if self.times else None), set(self.seen)
        for name, rows in snapshot.samples.items():
            if not accumulates(name, snapshot.types):
                continue
            tracks = self.tracks.setdefault(name, {})
            for labels, value in rows:
                series = tracks.get(labels)
                if series is not None:
                    series.add(seconds, value)
                elif previous is not None and _instance(labels) in known:
                    # A labelled counter appears with its first event: it stood at zero before.
                    series = tracks[labels] = Track(previous, 0.0, previous, 0.0)
                    series.add(seconds, value)
                else:
                    tracks[labels] = Track(seconds, value, seconds, value)
                self.seen.add(_instance(labels))
        self.times.append(seconds)
        self.last = snapshot

    def window(self) -> Window:
        """The window from the first snapshot to the last."""
        assert self.last is not None
        start, end = self.times[0], self.times[-1]
        increases: dict[str, list[Sample]] = {}
        for name, tracks in self.tracks.items():
            rows = []
            for labels, series in tracks.items():
                gained = increase(series, start, end)
                if gained is not None:
                    rows.append(Sample(labels, gained))
            increases[name] = rows
        notes = [
            f"`{i}` restarted {format_counted(n, 'time')} in the window"
            for i, n in self.restarts.items()
            if n
        ]
        usable, strange = without_strange(increases)
        return Window(
            usable,
            without_strange(self.last.samples)[0],
            end - start if end > start else None,
            instances=tuple(sorted(self.seen)),
            failures=tuple(self.failed.items()),
            notes=(*self.last.notes, *notes),
            suspects=(*self.suspects, *strange),
        )

    def _note_processes(self, snapshot: Snapshot) -> None:
        for labels, began in snapshot.samples.get(PROCESS_START, ()):
            instance = _instance(labels)
            before = self.starts.get(instance)
            if before is not None and began > before:
                self.restarts[instance] = self.restarts.get(instance, 0) + 1
            elif before is not None and began < before:
                self.suspects[f"`{instance}` answers from more than one process (a load balancer?)"] = None
            self.starts[instance] = began


def only(snapshot: Snapshot, instance: str) -> Snapshot:
    """The part of a snapshot that one server gave."""
    samples = {
        n: [r for r in rows if _instance(r.labels) == instance] for n, rows in snapshot.samples.items()
    }
    return replace(snapshot, samples={n: rows for n, rows in samples.items() if rows})


def _instance(labels: Labels) -> str:
    return next((value for name, value in labels if name == "instance"), "")
