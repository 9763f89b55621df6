"""`warmset tier`: look into, measure and tend a store below RAM."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from warmset.cli.options import BYTES, DURATION, TOKENS, F, output_options, talk
from warmset.errors import GateFailed, InputError, Undecided, WarmsetError
from warmset.report.emit import emit

if TYPE_CHECKING:
    from warmset.tiers.store import Store

_EPILOG = "Exit status: 0 done, 2 bad usage or input, 3 the store does not answer or refuses."


class _Group(click.Group):
    """Names the command that looks into a store, where an error of one says no more."""

    def invoke(self, ctx: click.Context) -> Any:
        """Like click's."""
        try:
            return super().invoke(ctx)
        except WarmsetError as error:
            if error.hint is None and error.exit_code == Undecided.exit_code:
                error.hint = "`warmset tier doctor STORE` tries all that a tier needs, step by step"
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


def _store_options(function: F) -> F:
    """Add STORE and what a URL does not say."""
    for option in reversed(
        [
            click.argument("url", metavar="STORE"),
            click.option("--endpoint", metavar="URL", help="Endpoint of an S3-compatible store."),
            click.option("--region", help="Region of the bucket."),
            click.option(
                "--ca-file",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Certificate authority that the store's certificate is checked against.",
            ),
            click.option(
                "--timeout", type=DURATION, default=5.0, help="Bound of one request.  [default: 5s]"
            ),
        ]
    ):
        function = option(function)
    return function


_blocks_option = click.option(
    "--prefix",
    help="Only keys that start with this.  [default: kv/, what the tier in vLLM wrote; `` for all]",
)


def _key_options(function: F) -> F:
    """Add where the key of an encrypted store comes from."""
    for option in reversed(
        [
            click.option(
                "--key-file",
                type=click.Path(path_type=Path),
                help="File with the key of encrypted blocks, as `encryption_key_file` of the tier.",
            ),
            click.option("--key-env", metavar="NAME", help="Environment variable with that key."),
        ]
    ):
        function = option(function)
    return function


def _open(url: str, endpoint: str | None, region: str | None, ca_file: Path | None, timeout: float) -> Any:
    from warmset.tiers.url import StoreOptions, open_store

    if url.startswith("file://") and not Path(url.removeprefix("file://")).is_dir():
        path = Path(url.removeprefix("file://"))
        hint = "name a directory" if path.exists() else f"mkdir -p {path}"
        raise InputError(f"`{url}` is not a directory", hint=hint)
    return open_store(
        url, StoreOptions(endpoint=endpoint, region=region, ca_file=ca_file, timeout_seconds=timeout)
    )


@command.command(epilog=_EPILOG)
@_store_options
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

    store = _open(**where)
    found = tuple(islice(store.entries(prefix), limit + 1))
    shown, more, url = found[:limit], len(found) > limit, where["url"]
    emit(
        form,
        lambda: entries_payload(url, shown, more),
        lambda: entries_document(url, shown, more),
        color=color,
    )


@command.command(epilog=_EPILOG)
@_store_options
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

    found, url = count(_open(**where), prefix=prefix), where["url"]
    emit(form, lambda: stats_payload(url, found), lambda: stats_document(url, found), color=color)


@command.command(epilog=_EPILOG)
@_store_options
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

    if capacity is None and max_age is None:
        raise InputError(
            "neither `--capacity` nor `--max-age` is given", hint="give one, such as `--capacity 2TiB`"
        )
    store, url = _open(**where), where["url"]
    done = evict(
        store,
        prefix=_blocks(store, url, prefix),
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
@_store_options
@_blocks_option
@click.option("--delete-corrupt", is_flag=True, help="Delete what does not match its checksum.")
@_key_options
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
    store, url = _open(**where), where["url"]
    found = scrub(
        store,
        prefix=_blocks(store, url, prefix),
        delete_corrupt=delete_corrupt,
        master_key=key,
        progress=_progress(quiet),
    )
    emit(form, lambda: scrub_payload(url, found), lambda: scrub_document(url, found), color=color)
    if found.corrupt:
        raise GateFailed(
            f"{len(found.corrupt)} corrupt object(s) in `{url}`",
            hint=None if found.deleted else "`--delete-corrupt` deletes them",
        )
    if found.unreadable:
        raise Undecided(
            f"{len(found.unreadable)} object(s) in `{url}` could not be read",
            hint=f"`warmset tier doctor {url}` shows what the store refuses",
        )


@command.command(epilog=_EPILOG)
@_store_options
@click.option("--block", type=BYTES, help="Size of one stored block; or give --model.")
@click.option("--model", help="Model whose blocks are stored (name, path or Hub id).")
@click.option("--kv-dtype", default="auto", show_default=True, help="KV cache dtype of the model.")
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="Tensor parallel size.")
@click.option(
    "--chunk-tokens", type=click.IntRange(1), default=256, show_default=True, help="Tokens per stored block."
)
@click.option("--prefill-tps", type=click.FloatRange(min=0, min_open=True), help="Prefill speed in tokens/s.")
@click.option("--gpu", help="Accelerator whose prefill speed is estimated, as in `plan`; with --model.")
@click.option(
    "--context",
    type=TOKENS,
    default=8192,
    help="Prompt at which the prefill speed is estimated.  [default: 8192]",
)
@click.option(
    "--objects",
    type=click.IntRange(1, 100_000),
    default=64,
    show_default=True,
    help="Blocks to write, read and delete again.",
)
@click.option(
    "--concurrency", type=click.IntRange(1, 256), help="Calls at once; the store's own number if not given."
)
@click.option("--compress", is_flag=True, help="Measure as the tier does with `compress`.")
@_key_options
@output_options()
def bench(
    block: int | None,
    model: str | None,
    kv_dtype: str,
    tp: int,
    chunk_tokens: int,
    prefill_tps: float | None,
    gpu: str | None,
    context: int,
    objects: int,
    concurrency: int | None,
    compress: bool,
    key_file: Path | None,
    key_env: str | None,
    form: str,
    color: str,
    quiet: bool,
    **where: Any,
) -> None:
    """Measure STORE at a block size, and compare loading from it with recomputing.

    \b
    Examples:
      warmset tier bench file:///mnt/nvme/kv --block 2MiB
      warmset tier bench s3://kv-cache/prod --model llama-3.1-8b --prefill-tps 12000
      warmset tier bench file:///mnt/nvme/kv --model llama-3.1-70b --tp 4 --gpu h100-sxm
      warmset tier bench file:///mnt/nvme/kv --block 2MiB --key-file /run/secrets/tier.key
    """
    from warmset.report.tier import bench_document, bench_payload
    from warmset.tiers.bench import bench as measure
    from warmset.tiers.bench import break_even
    from warmset.tiers.encoding import Encoding
    from warmset.tiers.key import read_key
    from warmset.tiers.verify import VerifyingStore

    encoding = Encoding(compress=compress, master_key=read_key(key_file, key_env))

    bytes_per_token = None
    if model is not None:
        from warmset.geometry import load

        bytes_per_token = float(load(model).footprint(kv_dtype=kv_dtype, tp=tp).bytes_per_token)
    if block is None and bytes_per_token is None:
        raise InputError("neither `--block` nor `--model` is given", hint="give one, such as `--block 2MiB`")
    size = block if block is not None else round((bytes_per_token or 0) * chunk_tokens)
    if not 0 < size <= 1 << 30:
        raise InputError(
            f"a block of `{size}` bytes cannot be measured", hint="use 1 B to 1 GiB, such as `--block 2MiB`"
        )
    if gpu is not None and prefill_tps is None:
        prefill_tps = _prefill_speed(model, gpu, kv_dtype, tp, context)
    # Measured as the tier uses it: with every block sealed and verified.
    measured = measure(
        VerifyingStore(_open(**where), encoding=encoding),
        block_bytes=size,
        objects=objects,
        concurrency=concurrency,
        progress=lambda step: talk(f"{step} …", quiet=quiet),
    )
    even = None
    if bytes_per_token and prefill_tps:
        even = break_even(measured, bytes_per_token=bytes_per_token, prefill_tokens_per_second=prefill_tps)
    url = where["url"]
    emit(
        form,
        lambda: bench_payload(url, measured, even),
        lambda: bench_document(url, measured, even),
        color=color,
    )


@command.command(epilog="Exit status: 0 fit to be a tier, 1 not, 2 bad input.")
@_store_options
@output_options()
def doctor(form: str, color: str, quiet: bool, **where: Any) -> None:
    """Try everything that a tier needs of STORE: credentials, permissions, consistency, latency, clock, space.

    \b
    Example:
      warmset tier doctor s3://kv-cache/prod --region eu-central-1
    """
    from warmset.report.tier import doctor_document, doctor_payload
    from warmset.tiers.doctor import examine

    found, url = examine(_open(**where)), where["url"]
    emit(form, lambda: doctor_payload(url, found), lambda: doctor_document(url, found), color=color)
    if any(e.status == "failed" for e in found):
        raise GateFailed(
            f"`{url}` cannot serve as a tier", hint="each line marked `failed` says what the store lacks"
        )


def _blocks(store: "Store", url: str, prefix: str | None) -> str:
    """The prefix of what may be deleted: what else lies in a store is somebody's, unless it is named."""
    from warmset.tiers.store import TIER_ROOT

    if prefix is not None:
        return prefix
    if next(iter(store.entries(TIER_ROOT)), None) is None and next(iter(store.entries()), None) is not None:
        raise InputError(
            f"`{url}` holds objects, and no blocks of a tier (below `{TIER_ROOT}`)",
            hint="name the store as the server does; `warmset tier ls` shows what is here, `--prefix` chooses from it",
        )
    return TIER_ROOT


def _prefill_speed(model: str | None, gpu: str, kv_dtype: str, tp: int, context: int) -> float | None:
    """What `plan` estimates for this model on this accelerator, in tokens per second of one replica."""
    from warmset.geometry import load
    from warmset.hardware import accelerator
    from warmset.plan.request import PlanRequest
    from warmset.plan.speed import prefill

    if model is None:
        raise InputError(
            "`--gpu` without `--model` says nothing of prefill", hint="name the model, or give --prefill-tps"
        )
    geometry = load(model)
    request = PlanRequest(
        geometry=geometry, sessions=1, context_tokens=context, kv_dtype=kv_dtype, tp=tp, gpu=gpu
    )
    speed = prefill(request, geometry.footprint(kv_dtype=kv_dtype, tp=tp), accelerator(gpu))
    if speed.tokens_per_second is None:
        raise InputError(speed.basis, hint="measure it, and give --prefill-tps")
    return speed.tokens_per_second


def _progress(quiet: bool) -> Callable[[int, int], None]:
    """Says how far a long read is, every ten seconds."""
    import time

    said = time.monotonic()

    def progress(objects: int, read_bytes: int) -> None:
        nonlocal said
        if time.monotonic() - said > 10:
            said = time.monotonic()
            talk(f"{objects:,} objects, {read_bytes / 2**30:,.1f} GiB read …", quiet=quiet)

    return progress
