"""`warmset tier bench`: measure a store, and compare loading from it with recomputing."""

from pathlib import Path
from typing import Any

import click

from warmset.cli.options import BYTES, TOKENS, output_options, talk
from warmset.cli.tier_store import EPILOG, key_options, open_url, store_options
from warmset.errors import InputError
from warmset.report.emit import emit


@click.command(epilog=EPILOG)
@store_options
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
@key_options
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
        VerifyingStore(open_url(**where), encoding=encoding),
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
