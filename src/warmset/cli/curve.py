"""`warmset curve`: what hit rate each capacity buys on real traffic."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from warmset.cli.options import BYTES, RATIO, output_options, talk
from warmset.cli.progress import progress
from warmset.cli.trace import read_options, reading_options
from warmset.errors import InputError
from warmset.report.emit import emit

POLICIES = ("lru", "arc", "fifo", "lfu", "optimal")
_MAX_CAPACITIES = 10_000


@click.command(epilog="Exit status: 0 done, 2 bad usage or input, 70 a bug.")
@click.argument("trace", metavar="TRACE")
@reading_options
@click.option(
    "--capacities",
    default="auto",
    show_default=True,
    metavar="LIST",
    help="Blocks, shares of the unique blocks (5%), or sizes with --model (40GiB); commas between.",
)
@click.option("--model", help="Name of a model: shows capacities in bytes.")
@click.option("--kv-dtype", default="auto", show_default=True, help="KV dtype of the deployment.")
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="Tensor-parallel ranks.")
@click.option(
    "--device", type=BYTES, help="Device pool above the tier, with --model; a bare number means GiB."
)
@click.option("--device-capacity", type=int, metavar="BLOCKS", help="The same in blocks.")
@click.option(
    "--tier",
    "inclusion",
    type=click.Choice(["inclusive", "exclusive"]),
    default="inclusive",
    show_default=True,
    help="Whether the tier also holds what the device holds (vLLM: yes).",
)
@click.option("--concurrency", type=int, help="Requests that run at a time and hold device blocks.")
@click.option("--chunk-tokens", type=int, help="The tier stores whole chunks of this many tokens.")
@click.option(
    "--within", type=float, default=1.0, show_default=True, help="Points below the ceiling that are fine."
)
@click.option(
    "--order",
    type=click.Choice(["tail-first", "head-first"]),
    help="Which end of a request is touched first; servers: the tail.  [default: tail-first]",
)
@click.option(
    "--weight",
    type=click.Choice(["tokens", "blocks"]),
    default="tokens",
    show_default=True,
    help="What one hit counts.",
)
@click.option(
    "--warmup", type=RATIO, default=0.0, show_default=True, help="First share of requests that only warm up."
)
@click.option(
    "--policy", type=click.Choice(POLICIES), default="lru", show_default=True, help="Eviction policy."
)
@click.option(
    "--sample", type=RATIO, help="Follow this share of blocks; any length of trace in bounded memory."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option("--workers", type=int, help="Sample the shards of TRACE on this many local Dask workers.")
@click.option("--scheduler", metavar="ADDRESS", help="Sample the shards of TRACE on this Dask cluster.")
@click.option("--prefill-tps", type=float, help="Prompt tokens computed per second: adds a TTFT estimate.")
@click.option(
    "--load-gbps", type=float, help="GB per second from the tier to the device, for the TTFT estimate."
)
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write an interactive report.")
@output_options(tabular=True)
def command(
    trace: str,
    capacities: str,
    model: str | None,
    kv_dtype: str,
    tp: int,
    device: int | None,
    device_capacity: int | None,
    inclusion: Any,
    concurrency: int | None,
    chunk_tokens: int | None,
    within: float,
    order: Any,
    weight: Any,
    warmup: float,
    policy: str,
    sample: float | None,
    seed: int,
    workers: int | None,
    scheduler: str | None,
    prefill_tps: float | None,
    load_gbps: float | None,
    html: Path | None,
    form: str,
    color: str,
    quiet: bool,
    **reading: Any,
) -> None:
    """Show what hit rate each capacity buys on the traffic in TRACE, and where more stops paying.

    TRACE is a file or format:file; `warmset trace info` shows what is in one. With --sample it may be many:
    mooncake:folder/, a pattern or s3://bucket/prefix/, in order of name. A hit rate is hit tokens over the tokens
    covered by listed blocks; its share of all prompt tokens stands beside it.

    \b
    Examples:
      warmset curve mooncake:conversation_trace.jsonl.gz --block-tokens 512 --capacities 1000,10000 -o json
      warmset curve trace.jsonl --model llama-3.1-8b --device 40GiB --html report.html
      warmset curve trace.jsonl --warmup 0.5 --policy arc --capacities 5000
      warmset curve big.jsonl.zst --sample 0.01
      warmset curve 's3://logs/2026-11-29/' --sample 0.01 --workers 8
    """
    from warmset.curves.shards import is_many
    from warmset.curves.study import Question, check, study
    from warmset.curves.ttft import Speeds
    from warmset.report.curve import csv_document, document, payload
    from warmset.traces import read

    if load_gbps is not None and (prefill_tps is None or model is None):
        raise InputError(
            "`--load-gbps` needs a model and a prefill speed", hint="add `--model` and `--prefill-tps`"
        )
    if html is not None and not html.parent.is_dir():
        raise InputError(f"`{html.parent}` is not a directory", hint=f"mkdir -p {html.parent}")
    per_token = None if model is None else _bytes_per_token(model, kv_dtype, tp)
    if device is not None and (per_token is None or device_capacity is not None):
        raise InputError(
            "`--device` is a size: it needs a model, and no `--device-capacity` beside it",
            hint="add `--model`, or give `--device-capacity` in blocks alone",
        )
    options = read_options(reading)

    def ask(tokens_per_block: int, unique_blocks: int) -> Question:
        per_block = None if per_token is None else per_token * tokens_per_block
        speeds = None
        if prefill_tps is not None:
            load = None if load_gbps is None else load_gbps * 1e9
            speeds = Speeds(prefill_tps, load, per_token)
        return Question(
            capacities=_capacities(capacities, per_block, unique_blocks),
            order=order,
            weight=weight,
            warmup_ratio=warmup,
            policy=policy,
            within_points=within,
            sample_ratio=sample,
            seed=seed,
            bytes_per_block=per_block,
            device_blocks=device_capacity if device is None else int(device / (per_block or 1)),
            inclusion=inclusion,
            chunk_tokens=chunk_tokens,
            concurrency=concurrency,
            speeds=speeds,
        )

    # Bad figures are refused before a large trace is read, as if its blocks were the smallest and plenty.
    check(ask(1, 1_000_000))
    many = workers is not None or scheduler is not None or is_many(trace)
    if many and sample is None:
        raise InputError("many files, or many machines, need a sample", hint="add `--sample 0.01`")
    if many and options.sort:
        raise InputError(
            "`--sort` needs the whole trace in one file", hint="order the requests by time first"
        )
    if sample is not None and not options.sort:
        with progress("sampling", quiet=quiet) as show:
            answer = _sampled(
                trace, replace(options, progress=show), ask, sample, seed, warmup, workers, scheduler
            )
    else:
        with progress("reading", quiet=quiet) as show:
            found = read(trace, replace(options, progress=show))
        traffic = found.trace
        for note in found.notes:
            talk(note, quiet=quiet)
        question = ask(traffic.block_tokens, traffic.unique_blocks)
        with progress("simulating", quiet=quiet) as show:
            answer = replace(study(traffic, question, progress=show), skipped=found.skipped)
    for reason, count in answer.skipped.items():
        talk(f"skipped {count:,}: {reason}", quiet=quiet)
    if html is not None:
        from warmset.report.curve_html import to_html

        try:
            html.write_text(to_html(answer), encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write `{html}`: {error.strerror}", hint="name another file") from None
        talk(f"wrote {html}", quiet=quiet)
    emit(
        form,
        lambda: payload(answer),
        lambda: csv_document(answer) if form == "csv" else document(answer),
        color=color,
    )


def _sampled(
    trace: str,
    options: Any,
    ask: Callable[[int, int], Any],
    ratio: float,
    seed: int,
    warmup: float,
    workers: int | None,
    scheduler: str | None,
) -> Any:
    """The study of a trace that is never in memory as a whole."""
    from warmset.curves.sampled import sampled_curve
    from warmset.curves.shards import list_shards, place_of, stream_shards
    from warmset.curves.study import study_curve

    shards = list_shards(trace)
    skipped: dict[str, int] = {}
    if workers is not None or scheduler is not None:
        from warmset.curves.distributed import distributed_curve

        curve = distributed_curve(
            shards,
            ratio=ratio,
            seed=seed,
            warmup_ratio=warmup,
            options=options,
            scheduler=scheduler,
            workers=2 if workers is None else workers,
            skipped=skipped,
        )
    else:
        skip = 0
        if warmup:
            skip = int(sum(part.requests for part in stream_shards(shards, options)) * warmup)
        parts = stream_shards(shards, options, skipped)
        curve = sampled_curve(parts, ratio=ratio, seed=seed, warmup_requests=skip)
    answer = study_curve(curve, ask(curve.block_tokens, curve.unique_blocks), source=place_of(trace))
    return replace(answer, skipped=skipped)


def _bytes_per_token(model: str, kv_dtype: str, tp: int) -> float:
    from warmset.geometry import load

    per_token = float(load(model).footprint(kv_dtype=kv_dtype, tp=tp).bytes_per_token)
    if per_token <= 0:
        raise InputError(f"the KV cache of `{model}` does not grow with tokens", hint="leave out `--model`")
    return per_token


def _capacities(text: str, bytes_per_block: float | None, unique_blocks: int) -> tuple[int, ...]:
    if text == "auto":
        return ()
    parts = text.split(",")
    if len(parts) > _MAX_CAPACITIES:
        raise InputError(
            f"`--capacities` lists `{len(parts):,}` values",
            hint=f"give at most {_MAX_CAPACITIES:,}, or `auto`",
        )
    return tuple(_blocks(part.strip(), bytes_per_block, unique_blocks) for part in parts)


def _blocks(text: str, bytes_per_block: float | None, unique_blocks: int) -> int:
    """A capacity in blocks, from blocks (`10000`, `10k`), a share of the unique ones (`5%`) or a size (`40GiB`)."""
    from fractions import Fraction

    from warmset.curves.record import check_capacity
    from warmset.units import parse_ratio, parse_tokens

    if text.endswith("%"):
        if unique_blocks < 0:
            raise InputError(
                f"`{text}` of the unique blocks is not known for a trace that is streamed",
                hint="give blocks, or leave out `--sample`",
            )
        share = parse_ratio(text, what="value of `--capacities`")
        blocks = int(Fraction(str(share)) * unique_blocks)
    elif text.lower().endswith(("b", "gi", "ti", "pi")):
        if bytes_per_block is None:
            raise InputError(
                f"`--capacities {text}` is a size, and blocks have none without a model",
                hint="add `--model`, or give a number of blocks",
            )
        blocks = int(BYTES(text) / bytes_per_block)
        if blocks < 1:
            raise InputError(
                f"`--capacities {text}` holds no block", hint=f"a block takes {bytes_per_block:,.0f} bytes"
            )
    else:
        try:
            blocks = parse_tokens(text)
        except InputError as error:
            # The same numbers, but they count blocks.
            reason = "is absurdly large" if "absurdly" in error.message else "is not a number of blocks"
            raise InputError(
                f"value `{text[:80]}` of `--capacities` {reason}",
                hint="write it like `10000`, `10k`, `5%` of the unique blocks, or `40GiB` with `--model`",
            ) from None
    check_capacity(blocks)
    return blocks
