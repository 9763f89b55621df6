"""Renders what `warmset tier` finds out about a store."""

import shlex
import time
from typing import Any

from warmset.report.document import Bullets, Document, Facts, Line, Section, Table, Tone
from warmset.tiers.bench import BreakEven, StoreBench, Timing
from warmset.tiers.doctor import Examination
from warmset.tiers.evict import Eviction
from warmset.tiers.scrub import Scrub
from warmset.tiers.stats import StoreStats
from warmset.tiers.store import Entry
from warmset.units import (
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_size,
    format_tokens,
)


def entries_payload(url: str, entries: tuple[Entry, ...], more: bool) -> dict[str, Any]:
    """`warmset.tier-ls/1`."""
    return {
        "schema": "warmset.tier-ls/1",
        "store": url,
        "entries": [
            {"key": e.key, "size_bytes": e.size_bytes, "modified_unix_seconds": e.modified_seconds}
            for e in entries
        ],
        "truncated": more,
    }


def entries_document(url: str, entries: tuple[Entry, ...], more: bool, *, plain: bool = False) -> Document:
    """Keys, sizes and ages; `plain` writes numbers alone, their units in the head."""
    now = time.time()
    if plain:
        figures = ((e.key, str(e.size_bytes), f"{max(0.0, now - e.modified_seconds):.0f}") for e in entries)
        table = Table(("key", "size_bytes", "age_seconds"), tuple(figures))
        return Document(Line(url), (Section("", (table,)),))
    rows = tuple(
        (e.key, format_bytes(e.size_bytes), format_duration(max(0.0, now - e.modified_seconds)))
        for e in entries
    )
    headline = f"{format_counted(len(entries), 'object')} in {url}" + (
        " (there are more: raise --limit)" if more else ""
    )
    if not rows:
        return Document(Line(headline))
    return Document(Line(headline), (Section("", (Table(("key", "size", "age"), rows, frozenset({1, 2})),)),))


def stats_payload(url: str, stats: StoreStats) -> dict[str, Any]:
    """`warmset.tier-stats/1`."""
    return {
        "schema": "warmset.tier-stats/1",
        "store": url,
        "objects": stats.objects,
        "stored_bytes": stats.stored_bytes,
        "oldest_age_seconds": stats.oldest_age_seconds,
        "newest_age_seconds": stats.newest_age_seconds,
        "total_bytes": stats.capacity.total_bytes,
        "free_bytes": stats.capacity.free_bytes,
        "namespaces": [
            {"name": n.name, "objects": n.objects, "stored_bytes": n.stored_bytes} for n in stats.namespaces
        ],
        "ages": [
            {
                "at_most_seconds": a.at_most_seconds,
                "objects": a.objects,
                "stored_bytes": a.stored_bytes,
            }
            for a in stats.ages
        ],
    }


def stats_document(url: str, stats: StoreStats) -> Document:
    """How much is stored, for whom, and how old it is."""
    free = (
        "the store does not say"
        if stats.capacity.free_bytes is None
        else format_size(stats.capacity.free_bytes)
    )
    facts = [
        ("objects", format_count(stats.objects), ""),
        ("stored", format_bytes(stats.stored_bytes), ""),
        ("free", free, ""),
    ]
    if stats.oldest_age_seconds is not None and stats.newest_age_seconds is not None:
        facts.append(("oldest", format_duration(stats.oldest_age_seconds), ""))
        facts.append(("newest", format_duration(stats.newest_age_seconds), ""))
    sections = [Section("", (Facts(tuple(facts)),))]
    if stats.namespaces:
        rows = tuple(
            (n.name, format_count(n.objects), format_bytes(n.stored_bytes)) for n in stats.namespaces
        )
        sections.append(
            Section("By namespace", (Table(("name", "objects", "stored"), rows, frozenset({1, 2})),))
        )
    if stats.objects:
        ages = tuple(
            (
                "older" if a.at_most_seconds is None else f"up to {format_duration(a.at_most_seconds)}",
                format_count(a.objects),
                format_bytes(a.stored_bytes),
            )
            for a in stats.ages
        )
        sections.append(Section("By age", (Table(("age", "objects", "stored"), ages, frozenset({1, 2})),)))
    return Document(Line(f"{format_bytes(stats.stored_bytes)} in {url}"), tuple(sections))


def eviction_payload(url: str, done: Eviction, dry_run: bool) -> dict[str, Any]:
    """`warmset.tier-gc/1`."""
    return {
        "schema": "warmset.tier-gc/1",
        "store": url,
        "dry_run": dry_run,
        "objects": done.objects,
        "total_bytes": done.total_bytes,
        "expired_objects": done.expired_objects,
        "evicted_objects": done.evicted_objects,
        "freed_bytes": done.freed_bytes,
        "kept_bytes": done.kept_bytes,
    }


def eviction_document(url: str, done: Eviction, dry_run: bool) -> Document:
    """What was, or would be, deleted."""
    verb = "would free" if dry_run else "freed"
    return Document(
        Line(f"{verb} {format_bytes(done.freed_bytes)} of {format_bytes(done.total_bytes)} in {url}"),
        (
            Section(
                "",
                (
                    Facts(
                        (
                            ("too old", format_count(done.expired_objects), "objects"),
                            (
                                "over capacity",
                                format_count(done.evicted_objects),
                                "objects, least recent first",
                            ),
                            ("kept", format_bytes(done.kept_bytes), ""),
                        )
                    ),
                ),
            ),
        ),
    )


def scrub_payload(url: str, found: Scrub) -> dict[str, Any]:
    """`warmset.tier-verify/1`."""
    return {
        "schema": "warmset.tier-verify/1",
        "store": url,
        "objects": found.objects,
        "read_bytes": found.read_bytes,
        "corrupt": [{"key": f.key, "reason": f.reason} for f in found.corrupt],
        "unreadable": [{"key": f.key, "kind": f.kind, "reason": f.reason} for f in found.unreadable],
        "deleted": found.deleted,
        "engines": [{"fingerprint_digest": name, "objects": n} for name, n in sorted(found.engines.items())],
        "encodings": [{"encoding": name, "objects": n} for name, n in sorted(found.encodings.items())],
        "unopened": found.unopened,
        "foreign": found.foreign,
        "notes": [
            *([_foreign_words(found.foreign)] if found.foreign else []),
            *([_unopened_words(found.unopened)] if found.unopened else []),
        ],
    }


def scrub_document(url: str, found: Scrub, *, prefix: str | None = None) -> Document:
    """Which objects may not be used; `prefix` as it was asked for."""
    clean = not found.corrupt and not found.unreadable
    words = (
        f"{format_counted(found.objects - found.foreign, 'object')}, {format_bytes(found.read_bytes)} read"
    )
    if found.deleted:
        words += f", {found.deleted} deleted"
    headline = Line(
        f"clean: {words}, every checksum holds"
        if clean
        else f"{len(found.corrupt)} corrupt and {len(found.unreadable)} unreadable: {words}",
        "good" if clean else "bad",
    )
    sections = []
    if found.corrupt:
        sections.append(Section("Corrupt", (Bullets(tuple(f.reason for f in found.corrupt[:50])),)))
    if found.unreadable:
        sections.append(Section("Unreadable", (Bullets(tuple(f.reason for f in found.unreadable[:50])),)))
    if found.foreign:
        sections.append(Section("Not checked", (Line(_foreign_words(found.foreign), "warn"),)))
    if found.unopened:
        sections.append(Section("Not opened", (Line(_unopened_words(found.unopened), "warn"),)))
    if found.corrupt and not found.deleted:
        where = f" --prefix {shlex.quote(prefix)}" if prefix is not None else ""
        sections.append(Section("Next", (Line(f"warmset tier verify {url}{where} --delete-corrupt"),)))
    return Document(headline, tuple(sections))


def _foreign_words(objects: int) -> str:
    return f"{format_counted(objects, 'object')} of other programs, without a tier's header: not judged, not deleted"


def _unopened_words(objects: int) -> str:
    return (
        f"encrypted, no key: {format_counted(objects, 'object')} {'was' if objects == 1 else 'were'} checked by the "
        "checksum of stored bytes, and not opened (--key-file or --key-env opens them)"
    )


def bench_payload(url: str, measured: StoreBench, even: BreakEven | None) -> dict[str, Any]:
    """`warmset.tier-bench/1`."""
    return {
        "schema": "warmset.tier-bench/1",
        "store": url,
        "block_bytes": measured.block_bytes,
        "objects": measured.objects,
        "concurrency": measured.concurrency,
        "put": _timing(measured.put),
        "get": _timing(measured.get),
        "exists": _timing(measured.exists, moves_bytes=False),
        "missing": _timing(measured.missing, moves_bytes=False),
        "break_even": None
        if even is None
        else {
            "load_tokens_per_second": even.load_tokens_per_second,
            "prefill_tokens_per_second": even.prefill_tokens_per_second,
            "ratio": even.ratio,
            "break_even_tokens": even.break_even_tokens,
        },
        "notes": []
        if even is not None
        else ["break_even is null: give a model and a prefill speed (--model with --prefill-tps or --gpu)"],
    }


def bench_document(url: str, measured: StoreBench, even: BreakEven | None) -> Document:
    """Speed, latency, and whether loading from here beats recomputing."""
    rows = tuple(
        (
            name,
            format_bytes(timing.bytes_per_second) + "/s" if moves_bytes else "",
            format_duration(timing.p50_seconds),
            format_duration(timing.p99_seconds),
        )
        for name, timing, moves_bytes in (
            ("store (put)", measured.put, True),
            ("load (get)", measured.get, True),
            ("lookup, there", measured.exists, False),
            ("lookup, missing", measured.missing, False),
        )
    )
    headline, tone = f"loads {format_bytes(measured.get.bytes_per_second)}/s from {url}", "plain"
    sections = []
    if even is not None:
        wins = even.break_even_tokens is not None
        headline = (
            f"loading beats recomputing for prefixes of {format_tokens(even.break_even_tokens or 0)} and more"
            if wins
            else "recomputing beats loading from this store at every length"
        )
        tone = "good" if wins else "bad"
        sections.append(
            Section(
                "Break-even",
                (
                    Facts(
                        (
                            (
                                "load",
                                f"{format_count(even.load_tokens_per_second)} tokens/s",
                                "measured here",
                            ),
                            (
                                "prefill",
                                f"{format_count(even.prefill_tokens_per_second)} tokens/s",
                                "as given, or as `plan` estimates it for the accelerator",
                            ),
                            ("ratio", f"{even.ratio:.2f}", "above 1 loading wins for long prefixes"),
                        )
                    ),
                ),
            )
        )
    title = (
        f"{format_counted(measured.objects, 'block')} of {format_bytes(measured.block_bytes)}, "
        f"{measured.concurrency} at a time"
    )
    table = Table(("operation", "throughput", "p50", "p99"), rows, frozenset({1, 2, 3}))
    return Document(Line(headline, _tone(tone)), (Section(title, (table,)), *sections))


def doctor_payload(url: str, found: tuple[Examination, ...]) -> dict[str, Any]:
    """`warmset.tier-doctor/1`."""
    return {
        "schema": "warmset.tier-doctor/1",
        "store": url,
        "healthy": all(e.status in ("ok", "warning") for e in found),
        "examinations": [
            {"name": e.name, "status": e.status, "detail": e.detail, "advice": e.advice} for e in found
        ],
    }


def doctor_document(url: str, found: tuple[Examination, ...]) -> Document:
    """One line per thing that was tried, and what to do about the rest."""
    failed = [e for e in found if e.status == "failed"]
    warned = [e for e in found if e.status == "warning"]
    if failed:
        headline = Line(f"{url} cannot serve as a tier: {failed[0].name} failed", "bad")
    elif warned:
        headline = Line(f"{url} works, with {len(warned)} warning(s)", "warn")
    else:
        headline = Line(f"{url} is fit to be a tier", "good")
    rows = tuple((e.name, e.status, e.detail) for e in found)
    sections = [Section("", (Table(("step", "status", "detail"), rows),))]
    advice = tuple(f"{e.name}: {e.advice}" for e in found if e.advice)
    if advice:
        sections.append(Section("What to do", (Bullets(advice),)))
    return Document(headline, tuple(sections))


def _timing(timing: Timing, *, moves_bytes: bool = True) -> dict[str, Any]:
    return {
        "calls": timing.calls,
        "bytes_per_second": timing.bytes_per_second if moves_bytes else None,
        "p50_seconds": timing.p50_seconds,
        "p99_seconds": timing.p99_seconds,
    }


def _tone(name: str) -> Tone:
    return "good" if name == "good" else "bad" if name == "bad" else "plain"
