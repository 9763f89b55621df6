"""`warmset tier`: look into, measure and tend a store below RAM."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warmset.cli.options import BYTES, DURATION, output_options, talk
from warmset.cli.tier_bench import bench
from warmset.cli.tier_store import EPILOG, key_options, open_url, store_options
from warmset.errors import GateFailed, InputError, Undecided, WarmsetError
from warmset.report.emit import emit
from warmset.units import format_counted

if TYPE_CHECKING:
    from warmset.tiers.store import Store


class _Group(click.Group):
    """Names the command that looks into a store where one refuses or does not answer."""

    def invoke(self, ctx: click.Context) -> Any:
        """Like click's."""
        try:
            return super().invoke(ctx)
        except WarmsetError as error:
            from warmset.tiers.errors import Denied, Transient

            if isinstance(error, (Denied, Transient)):
                error.hint = (
                    f"{error.hint}; `warmset tier doctor STORE` tries all that a tier needs, step by step"
                )
            raise


@click.group(cls=_Group)
def command() -> None:
    """Look into, measure and tend a store below RAM: a disk, an object store, Redis.

    STORE is file:///path, s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or redis://host:6379/0.
    Credentials come from each cloud's own chain or the environment, never from the command line.

    \b
    Examples:
      warmset tier doctor s3://kv-cache/prod
      warmset tier bench file:///mnt/nvme/kv --block 2MiB
      warmset tier gc file:///mnt/nvme/kv --capacity 2TiB --dry-run
    """


command.add_command(bench)

_blocks_option = click.option(
    "--prefix",
    help="Only keys that start with this.  [default: kv/, what the tier in vLLM wrote; `` for all]",
)


@command.command(epilog=EPILOG)
@store_options
@click.option("--prefix", default="", help="Only keys that start with this.")
@click.option(
    "--limit", type=click.IntRange(1, 10**9), default=1000, show_default=True, help="Objects shown at most."
)
@output_options(tabular=True)
def ls(prefix: str, limit: int, form: str, color: str, quiet: bool, **where: Any) -> None:
    """List the objects of STORE.

    \b
    Example:
      warmset tier ls file:///mnt/nvme/kv --limit 20
    """
    from itertools import islice

    from warmset.report.tier import entries_document, entries_payload

    store = open_url(**where)
    found = tuple(islice(store.entries(prefix), limit + 1))
    shown, more, url = found[:limit], len(found) > limit, where["url"]
    emit(
        form,
        lambda: entries_payload(url, shown, more),
        lambda: entries_document(url, shown, more, plain=form == "csv"),
        color=color,
    )


@command.command(epilog=EPILOG)
@store_options
@click.option("--prefix", default="", help="Only keys that start with this.")
@output_options()
def stats(prefix: str, form: str, color: str, quiet: bool, **where: Any) -> None:
    """Count what STORE holds, by namespace and age.

    \b
    Example:
      warmset tier stats s3://kv-cache/prod -o json
    """
    from warmset.report.tier import stats_document, stats_payload
    from warmset.tiers.stats import stats as count

    found, url = count(open_url(**where), prefix=prefix), where["url"]
    emit(form, lambda: stats_payload(url, found), lambda: stats_document(url, found), color=color)


@command.command(epilog=EPILOG)
@store_options
@_blocks_option
@click.option(
    "--capacity", type=BYTES, help="Delete the least recent until this holds; a bare number means GiB."
)
@click.option("--max-age", type=DURATION, help="Delete what was not used for this long.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@output_options()
def gc(
    prefix: str | None,
    capacity: int | None,
    max_age: float | None,
    dry_run: bool,
    form: str,
    color: str,
    quiet: bool,
    **where: Any,
) -> None:
    """Bound STORE by bytes and age. Safe beside serving engines and other collectors.

    \b
    Example:
      warmset tier gc file:///mnt/nvme/kv --capacity 2TiB --max-age 7d
    """
    from warmset.report.tier import eviction_document, eviction_payload
    from warmset.tiers.evict import evict
    from warmset.tiers.store import TIER_ROOT

    if capacity is None and max_age is None:
        raise InputError(
            "neither `--capacity` nor `--max-age` is given", hint="give one, such as `--capacity 2TiB`"
        )
    store, url = open_url(**where), where["url"]
    if prefix is None and _only_others(store, TIER_ROOT):
        # Not an error: a collector that runs by the clock meets stores whose last block has gone.
        talk(f"{_others_words(url)}: nothing to delete (for all that is there: `--prefix ''`)", quiet=quiet)
    done = evict(
        store,
        prefix=TIER_ROOT if prefix is None else prefix,
        capacity_bytes=capacity,
        max_age_seconds=max_age,
        dry_run=dry_run,
    )
    emit(
        form,
        lambda: eviction_payload(url, done, dry_run),
        lambda: eviction_document(url, done, dry_run),
        color=color,
    )


@command.command(
    epilog="Exit status: 0 clean, 1 something is corrupt, 2 bad input, 3 something could not be read."
)
@store_options
@_blocks_option
@click.option("--delete-corrupt", is_flag=True, help="Delete what does not match its checksum.")
@key_options
@output_options()
def verify(
    prefix: str | None,
    delete_corrupt: bool,
    key_file: Path | None,
    key_env: str | None,
    form: str,
    color: str,
    quiet: bool,
    **where: Any,
) -> None:
    """Read every object of STORE and check its seal: key, length and checksum.

    The checksum of an encrypted block needs no key; with one, the block is opened too. Blocks that a key does not open
    are never deleted.

    \b
    Examples:
      warmset tier verify file:///mnt/nvme/kv --delete-corrupt
      warmset tier verify s3://kv-cache/prod --key-file /run/secrets/tier.key
    """
    from warmset.report.tier import scrub_document, scrub_payload
    from warmset.tiers.key import read_key
    from warmset.tiers.scrub import scrub

    key = read_key(key_file, key_env)
    store, url = open_url(**where), where["url"]
    found = scrub(
        store,
        prefix=_to_verify(store, url, prefix),
        delete_corrupt=delete_corrupt,
        master_key=key,
        progress=_progress(quiet),
    )
    emit(
        form,
        lambda: scrub_payload(url, found),
        lambda: scrub_document(url, found, prefix=prefix),
        color=color,
    )
    if found.corrupt:
        raise GateFailed(
            f"{format_counted(len(found.corrupt), 'corrupt object')} in `{url}`"
            + (f", {found.deleted} deleted" if found.deleted else ""),
            hint=None if found.deleted else "`--delete-corrupt` deletes them",
        )
    if found.unreadable:
        raise Undecided(
            f"{format_counted(len(found.unreadable), 'object')} in `{url}` could not be read",
            hint=f"`warmset tier doctor {url}` shows what the store refuses",
        )


@command.command(epilog="Exit status: 0 fit to be a tier, 1 not, 2 bad input.")
@store_options
@output_options()
def doctor(form: str, color: str, quiet: bool, **where: Any) -> None:
    """Try everything that a tier needs of STORE: credentials, permissions, consistency, latency, clock, space.

    \b
    Example:
      warmset tier doctor s3://kv-cache/prod --region eu-central-1
    """
    from warmset.report.tier import doctor_document, doctor_payload
    from warmset.tiers.doctor import examine

    found, url = examine(open_url(**where)), where["url"]
    emit(form, lambda: doctor_payload(url, found), lambda: doctor_document(url, found), color=color)
    if any(e.status == "failed" for e in found):
        raise GateFailed(
            f"`{url}` cannot serve as a tier", hint="each line marked `failed` says what the store lacks"
        )


def _to_verify(store: "Store", url: str, prefix: str | None) -> str:
    """The prefix of what is checked. InputError where nothing is: a misspelt name must not pass as clean."""
    from warmset.tiers.store import TIER_ROOT

    chosen = TIER_ROOT if prefix is None else prefix
    if _only_others(store, chosen):
        raise InputError(
            _others_words(url) if prefix is None else f"no object in `{url}` begins with `{prefix}`",
            hint="name the store as the server does; `warmset tier ls` shows what is here, `--prefix` chooses from it",
        )
    return chosen


def _only_others(store: "Store", prefix: str) -> bool:
    """Whether there are objects, and none with this prefix."""
    return next(iter(store.entries(prefix)), None) is None and next(iter(store.entries()), None) is not None


def _others_words(url: str) -> str:
    from warmset.tiers.store import TIER_ROOT

    return f"`{url}` holds objects, and no blocks of a tier (below `{TIER_ROOT}`)"


def _progress(quiet: bool) -> Callable[[int, int], None]:
    """Says how far a long read is, every ten seconds."""
    import time

    said = time.monotonic()

    def progress(objects: int, read_bytes: int) -> None:
        nonlocal said
        if time.monotonic() - said > 10:
            said = time.monotonic()
            talk(f"{format_counted(objects, 'object')}, {read_bytes / 2**30:,.1f} GiB read …", quiet=quiet)

    return progress
