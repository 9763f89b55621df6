"""`warmset footprint`: what a model's KV cache costs, with the formula."""

import click

from warmset.cli.options import COUNT, TOKENS, output_options
from warmset.report.emit import emit


@click.command(
    epilog="Exit status: 0 done, 2 bad usage or input (an unknown model, a configuration that warmset does not "
    "understand, a deployment that the model cannot have), 70 a bug."
)
@click.argument("model", required=False)
@click.option("--layers", type=COUNT, help="Layers of full attention, without a model.")
@click.option("--kv-heads", type=COUNT, help="KV heads per layer, without a model.")
@click.option("--head-dim", type=COUNT, help="Elements per head, without a model.")
@click.option(
    "--kv-dtype",
    metavar="DTYPE",
    default="auto",
    show_default=True,
    help="KV dtype: any of vLLM's --kv-cache-dtype, fp16, bf16.",
)
@click.option("--context", type=TOKENS, help="Tokens of one session: adds the bytes per session.")
@click.option("--tp", type=COUNT, default=1, show_default=True, help="Tensor-parallel ranks.")
@click.option("--pp", type=COUNT, default=1, show_default=True, help="Pipeline-parallel ranks.")
@click.option(
    "--dcp", type=COUNT, default=1, show_default=True, help="Decode-context-parallel ranks, within --tp."
)
@click.option(
    "--block-size",
    type=COUNT,
    metavar="TOKENS",
    help="Tokens per block; left out, the server's own.",
)
@click.option("--platform", default="cuda", show_default=True, help="cuda or cpu.")
@click.option("--speculative-tokens", type=COUNT, default=0, show_default=True, help="Draft tokens per step.")
@click.option("--no-prefix-caching", is_flag=True, help="The server runs without prefix caching.")
@click.option(
    "--no-hybrid-manager", is_flag=True, help="The server runs with --disable-hybrid-kv-cache-manager."
)
@click.option(
    "--download", is_flag=True, help="Fetch the config.json of a Hub id that is not in the local cache."
)
@output_options()
def command(
    model: str | None,
    layers: int | None,
    kv_heads: int | None,
    head_dim: int | None,
    kv_dtype: str,
    context: int | None,
    tp: int,
    pp: int,
    dcp: int,
    block_size: int | None,
    platform: str,
    speculative_tokens: int,
    no_prefix_caching: bool,
    no_hybrid_manager: bool,
    download: bool,
    form: str,
    color: str,
    quiet: bool,
) -> None:
    """Show what the KV cache of MODEL costs, with the formula and the numbers filled in.

    MODEL is a name of the catalogue, a Hub id, a config.json or the folder that holds one. Without it, give
    --layers, --kv-heads and --head-dim.

    \b
    Examples:
      warmset footprint llama-3.1-8b --context 8192
      warmset footprint deepseek-v3 --tp 8 --kv-dtype fp8
      warmset footprint ./my-model/config.json --tp 4 -o json
      warmset footprint --layers 32 --kv-heads 8 --head-dim 128 --kv-dtype fp16 --context 8192
    """
    from warmset.geometry import load_or_uniform
    from warmset.report.footprint import document, payload

    geometry = load_or_uniform(model, layers=layers, kv_heads=kv_heads, head_dim=head_dim, download=download)
    footprint = geometry.footprint(
        kv_dtype=kv_dtype,
        tp=tp,
        pp=pp,
        dcp=dcp,
        block_size=block_size,
        platform=platform,
        speculative_tokens=speculative_tokens,
        prefix_caching=not no_prefix_caching,
        hybrid_manager=not no_hybrid_manager,
    )
    if context is not None:
        footprint.check_context(context)
    emit(form, lambda: payload(footprint, context), lambda: document(footprint, context), color=color)
