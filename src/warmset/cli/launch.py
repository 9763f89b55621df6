"""`warmset launch`: exactly what to type, for a server version."""

from pathlib import Path
from typing import Any

import click

from warmset.cli.options import BYTES, COUNT, TOKENS, output_options


@click.command(epilog="Exit status: 0 done, 2 bad input or a combination that the version cannot do.")
@click.argument("model", required=False)
@click.option(
    "--tier", "tier_bytes", type=BYTES, required=True, help="Host tier per replica, all ranks (230GiB)."
)
@click.option(
    "--engine",
    "engine_name",
    metavar="SERVER@VERSION",
    help="Such as vllm@0.32; the newest known vLLM by default.",
)
@click.option(
    "--backend",
    metavar="BACKEND",
    help="native, native+disk, native+object, native+warmset, lmcache, lmcache-inprocess or hicache; "
    "default: the server's own.",
)
@click.option(
    "--as",
    "target",
    metavar="TARGET",
    default="shell",
    show_default=True,
    help="shell, compose, helm or kserve.",
)
@click.option("--tp", type=COUNT, default=1, show_default=True, help="Tensor-parallel size.")
@click.option("--pp", type=COUNT, default=1, show_default=True, help="Pipeline-parallel size.")
@click.option(
    "--dp",
    type=COUNT,
    default=1,
    show_default=True,
    help="Data-parallel replicas; each has its own tier.",
)
@click.option("--disk-path", metavar="PATH", help="Directory of the disk tier.  [default: /kv]")
@click.option("--disk-size", "disk_bytes", type=BYTES, help="Size of the disk tier per replica.")
@click.option(
    "--object-store",
    "object_url",
    metavar="URL",
    help="Object tier, s3://BUCKET/PREFIX; native+warmset also takes gs://, az:// and redis://.",
)
@click.option("--endpoint", metavar="URL", help="URL of an object store other than AWS.")
@click.option(
    "--lmcache", "lmcache_version", metavar="VERSION", help="Version of LMCache; default: the newest known."
)
@click.option("--kv-dtype", metavar="DTYPE", default="auto", show_default=True, help="Type of the KV cache.")
@click.option("--block-size", type=COUNT, metavar="TOKENS", help="Tokens per device block.")
@click.option("--max-model-len", type=TOKENS, help="Longest context served.")
@click.option("--port", type=COUNT, help="Port of the server.")
@output_options()
def command(
    model: str | None,
    engine_name: str | None,
    backend: str | None,
    lmcache_version: str | None,
    form: str,
    color: str,
    quiet: bool,
    **options: Any,
) -> None:
    """Write exactly what to type to start MODEL with an offload tier.

    MODEL is a name of the catalogue, a Hub id or a path; without it the command says MODEL.

    \b
    Examples:
      warmset launch llama-3.1-8b --tier 230GiB --engine vllm@0.32
      warmset launch llama-3.1-8b --tier 230GiB --engine vllm@0.26 --backend lmcache-inprocess --as helm
      warmset launch my-org/model --tier 512GiB --tp 8 --backend native+disk --disk-path /mnt/nvme/kv --as compose
      warmset launch llama-3.1-8b --tier 230GiB --backend native+warmset --disk-path /mnt/nvme/kv --disk-size 2TiB
      warmset launch qwen3-4b --tier 200GB --engine sglang@0.5.23 --backend hicache
    """
    from warmset import api
    from warmset.report import launch as report
    from warmset.report.emit import emit

    _check_name(model)
    launch = api.launch(
        model,
        tier=options.pop("tier_bytes"),
        disk=options.pop("disk_bytes"),
        engine=engine_name,
        backend=backend,
        lmcache=lmcache_version,
        **{name: value for name, value in options.items() if name != "disk_path" or value is not None},
    )
    emit(form, lambda: report.payload(launch), lambda: report.document(launch), color=color)


def _check_name(model: str | None) -> None:
    """Refuse what is neither a name of the catalogue, a Hub id nor a path: a slip that the server would find late."""
    if model is None or "/" in model or Path(model).exists():
        return
    from warmset.errors import UnknownName
    from warmset.geometry.catalogue import find, names

    if find(model) is None:
        raise UnknownName("model", model[:80], names(), hint="or give a Hub id (`org/name`) or a path")
