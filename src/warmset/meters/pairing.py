"""Whether two scrapes belong together, and what became of the servers between them."""

from collections import defaultdict
from collections.abc import Mapping

from warmset.errors import InputError
from warmset.meters.exposition import Labels
from warmset.meters.series import (
    IDENTITY,
    PROCESS_START,
    accumulates,
    base,
    distinct,
    instance_of,
    instances,
    remembered,
    without,
)
from warmset.meters.snapshot import Snapshot, renamed


def one_server(start: Snapshot, end: Snapshot) -> tuple[Snapshot, Snapshot, tuple[str, ...]]:
    """Give two pages of one server each the same name: a page saved by hand has none, and an address has many."""
    old, new = instances(start), instances(end)
    if len(old) != 1 or len(new) != 1 or old == new:
        return start, end, ()
    (before,), (after,) = old, new
    name = after or before
    note = f"`{before}` and `{after}` are taken for one server" if before and after else None
    return renamed(start, name), renamed(end, name), (note,) if note else ()


def seconds_between(start: Snapshot, end: Snapshot) -> float | None:
    """Time from one page to the other, None where a page carries none; InputError where it does not run forward."""
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


def refuse_swapped(start: Snapshot, end: Snapshot) -> None:
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


def refuse_shrunk(start: Snapshot, end: Snapshot) -> None:
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


def refuse_other_models(start: Snapshot, end: Snapshot, restarted: bool) -> None:
    """Two pages without a model in common are of different servers, unless the server restarted with another."""
    before, after = _models(start), _models(end)
    if before and after and not restarted and not before & after:
        raise InputError(
            f"the first scrape is of model `{min(before)}`, the second of `{min(after)}`",
            hint="give two scrapes of the same server",
        )


def gone(start: Snapshot, end: Snapshot) -> tuple[str, ...]:
    """A sentence for the engines that a server lost: what they did in the window is not known."""
    there = instances(end)
    lost = sorted(engine for engine in _engines(start) - _engines(end) if engine[0] in there)
    if not lost:
        return ()
    shown = ", ".join(name for _, name in lost[:5])
    return (f"engines are gone from the second scrape ({shown}): what they did in the window is not counted",)


def _models(page: Snapshot) -> set[str]:
    return {value for labels in distinct(page) for name, value in labels if name == "model_name"}


def _engines(page: Snapshot) -> set[tuple[str, str]]:
    return {
        (instance_of(labels), value)
        for labels in distinct(page)
        for name, value in labels
        if name == "engine"
    }


def fates(start: Snapshot, end: Snapshot, notes: list[str], suspects: list[str]) -> dict[str, str]:
    """What became of each server: `restarted` or `left out`; others ran through."""
    began_before = {instance_of(row.labels): row.value for row in start.samples.get(PROCESS_START, ())}
    began_after = {instance_of(row.labels): row.value for row in end.samples.get(PROCESS_START, ())}
    old, new = instances(start), instances(end)
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


def created(snapshot: Snapshot) -> dict[tuple[str, Labels], float]:
    """The times at which counters began, by family and labels."""
    return {
        (name.removesuffix("_created"), labels): value
        for name, rows in snapshot.samples.items()
        if name.endswith("_created")
        for labels, value in rows
    }


def reset_groups(
    before: Mapping[str, Mapping[Labels, float]],
    end: Snapshot,
    created_before: Mapping[tuple[str, Labels], float],
    created_after: Mapping[tuple[str, Labels], float],
) -> set[tuple[str, Labels]]:
    """(family, labels) that were reset: a histogram as a whole, and every counter of the same process with it."""
    reset: set[tuple[str, Labels]] = set()
    processes: set[Labels] = set()
    groups: dict[Labels, set[tuple[str, Labels]]] = defaultdict(set)
    process_of = remembered(lambda labels: tuple(pair for pair in labels if pair[0] in IDENTITY))
    without_bound = remembered(lambda labels: without(labels, "le"))
    for name, rows in end.samples.items():
        if not accumulates(name, end.types):
            continue
        old, family, buckets = before.get(name, {}), base(name), name.endswith("_bucket")
        for labels, value in rows:
            key = (family, without_bound(labels) if buckets else labels)
            process = process_of(labels)
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
