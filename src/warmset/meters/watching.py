"""Measures running servers over a sliding window, all together and one by one."""

from collections import deque
from dataclasses import dataclass, field

from warmset.meters.judge import judge
from warmset.meters.meters import Meters, meters
from warmset.meters.rates import only
from warmset.meters.snapshot import Snapshot
from warmset.meters.thresholds import Thresholds
from warmset.meters.verdict import Verdict
from warmset.meters.window import window
from warmset.servers import Engine

# Snapshots of a large fleet are large: the window slides in this many steps.
_KEPT = 12


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server's meters, or why it has none."""

    instance: str
    meters: Meters | None
    verdict: Verdict | None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """What `warmset watch` shows at one moment."""

    meters: Meters
    verdict: Verdict
    endpoints: tuple[Endpoint, ...]


@dataclass(slots=True)
class Watch:
    """Makes one frame per snapshot, over the last `length_seconds`; keeps only some of them to begin windows with."""

    length_seconds: float
    engine: Engine | None
    tier_bytes: float | None
    thresholds: Thresholds
    snapshots: deque[Snapshot] = field(default_factory=deque)

    def add(self, snapshot: Snapshot) -> Frame | None:
        """Take in a snapshot; None for the first, which makes no window yet."""
        newest = snapshot.time_seconds or 0.0
        if not self.snapshots:
            self.snapshots.append(snapshot)
            return None
        while (
            len(self.snapshots) > 1
            and newest - (self.snapshots[1].time_seconds or 0.0) >= self.length_seconds
        ):
            self.snapshots.popleft()
        start, end = self.snapshots[0], snapshot
        if newest - (self.snapshots[-1].time_seconds or 0.0) >= self.length_seconds / _KEPT:
            self.snapshots.append(snapshot)
        m, verdict = self._measure(start, end)
        rows = [self._endpoint(start, end, i) for i in m.instances]
        rows += [Endpoint(name, None, None, error) for name, error in end.failures]
        return Frame(m, verdict, tuple(rows))

    def _measure(self, start: Snapshot, end: Snapshot) -> tuple[Meters, Verdict]:
        m = meters(window(start, end), self.engine, tier_bytes=self.tier_bytes)
        return m, judge(m, None, None, self.thresholds)

    def _endpoint(self, start: Snapshot, end: Snapshot, instance: str) -> Endpoint:
        before, after = only(start, instance), only(end, instance)
        if not before.samples:
            return Endpoint(instance, None, None, "is new; its counters have no start yet")
        return Endpoint(instance, *self._measure(before, after))
