"""`warmset plan`: decide whether to offload KV cache, and size the tier."""

from dataclasses import replace
from typing import Any

import click

from warmset.cli.options import BYTES, COUNT, RATIO, TOKENS, SectionedCommand, output_options, section, talk
from warmset.cli.progress import progress
from warmset.cli.trace import READING, read_options, reading_options
from warmset.report.emit import emit

_EPILOG = (
    "Sizes without a unit are GiB and count one replica with all its ranks. "
    "Exit status: 0 done (whatever the verdict), 2 bad usage or input."
)


_MODEL = [
    click.argument("model", required=False),
    click.option("--layers", type=COUNT, help="Layers, instead of MODEL."),
    click.option("--kv-heads", type=COUNT, help="KV heads per layer, instead of MODEL."),
    click.option("--head-dim", type=COUNT, help="Elements per head, instead of MODEL."),
    click.option("--download", is_flag=True, help="Fetch an unknown Hub id's config.json from the Hub."),
    click.option(
        "--kv-dtype",
        default="auto",
        show_default=True,
        metavar="DTYPE",
        help="As vLLM's --kv-cache-dtype; fp16, bf16 too.",
    ),
]
_DEMAND = [
    click.option("--sessions", type=COUNT, help="Sessions that should stay warm on one replica."),
    click.option("--context", type=TOKENS, help="Tokens of one session at its longest."),
    click.option("--turns", type=COUNT, help="Instead of --context: turns of a session."),
    click.option("--tokens-per-turn", type=TOKENS, help="With --turns: tokens that each turn adds."),
    click.option(
        "--shared-prefix",
        type=TOKENS,
        default=0,
        help="Leading tokens that all sessions share (kept once; part of --context).",
    ),
]
_TRAFFIC = [
    click.option(
        "--trace",
        metavar="TRACE",
        help="Size by this traffic of one replica, a file or format:file, instead of by sessions.",
    ),
    click.option(
        "--within",
        type=float,
        help="With --trace: points below the best hit rate that are fine.  [default: 1]",
    ),
    reading_options,
]
_POOL = [
    click.option(
        "--metrics",
        metavar="URL|FILE",
        help="A server's /metrics, running or saved (plain or .gz; - is stdin).",
    ),
    click.option("--log", metavar="FILE", help="A server's start-up log (- is stdin)."),
    click.option("--kv-cache-tokens", type=TOKENS, help="KV cache size as the server logs it."),
    click.option("--hbm-kv", type=BYTES, help="Device memory for KV cache, all ranks of one replica."),
    click.option(
        "--gpu", metavar="NAME", help="Accelerator, such as h100-80gb: an estimate, and the speeds."
    ),
    click.option(
        "--gpu-memory-utilization",
        type=RATIO,
        help="For the estimate; the default is the server version's own.",
    ),
]
_DEPLOYMENT = [
    click.option("--gpus", type=COUNT, help="Devices in all; --tp follows from it."),
    click.option("--tp", type=COUNT, help="Tensor-parallel ranks.  [default: 1]"),
    click.option("--pp", type=COUNT, default=1, show_default=True, help="Pipeline-parallel ranks."),
    click.option(
        "--dp",
        type=COUNT,
        default=1,
        show_default=True,
        help="Data-parallel replicas on this host, a tier each.",
    ),
    click.option("--dcp", type=COUNT, default=1, show_default=True, help="Decode-context-parallel ranks."),
    click.option("--block-size", type=COUNT, metavar="TOKENS", help="Tokens per device block."),
    click.option("--max-model-len", type=TOKENS, help="Longest context served."),
    click.option(
        "--speculative-tokens",
        type=COUNT,
        default=0,
        help="Draft tokens per step (adds MTP layers).",
    ),
    click.option("--no-prefix-caching", is_flag=True, help="The server runs without prefix caching."),
    click.option("--no-hybrid-manager", is_flag=True, help="The hybrid KV-cache manager is off."),
    click.option(
        "--platform",
        type=click.Choice(["cuda", "cpu"]),
        default="cuda",
        show_default=True,
        help="What the server runs on.",
    ),
]
_TIER = [
    click.option(
        "--engine", metavar="SERVER@VERSION", help="Such as vllm@0.32; the newest known vLLM by default."
    ),
    click.option("--lmcache", metavar="VERSION", help="LMCache's version, such as 0.5.6."),
    click.option(
        "--backend",
        metavar="BACKEND",
        help="native (default), native+disk, native+object, native+warmset, lmcache, lmcache-inprocess or hicache.",
    ),
    click.option(
        "--headroom",
        default="0.15",
        metavar="RATIO",
        show_default=True,
        help="Room beyond the warm set, such as 15%.",
    ),
    click.option("--host-ram", type=BYTES, help="Memory of the host."),
    click.option("--container-limit", type=BYTES, help="Memory limit of the server's container."),
    click.option("--shm", type=BYTES, help="Size of /dev/shm."),
    click.option("--disk", metavar="NAME", multiple=True, help="Disk below host memory, such as nvme-gen4."),
    click.option("--object", "object_", metavar="NAME", multiple=True, help="Object store, such as 100gbe."),
]
_MEASURED = [
    click.option(
        "--prefill-tps", type=float, help="Measured prefill speed of one replica, tokens per second."
    ),
    click.option(
        "--load-gbps", type=float, help="Measured load speed of one replica, 10^9 bytes per second."
    ),
    click.option("--ram-price", type=float, help="Price of one GiB of host memory, in any currency."),
    click.option("--replicas", type=COUNT, default=1, show_default=True, help="Replicas in the fleet."),
]


@click.command(cls=SectionedCommand, epilog=_EPILOG)
@section("Model", _MODEL)
@section("Demand, by sessions", _DEMAND)
@section("Demand, by recorded traffic instead", _TRAFFIC)
@section("Device pool, by one of these", _POOL)
@section("Deployment, as the server is started", _DEPLOYMENT)
@section("Tier and host", _TIER)
@section("Measured speeds, cost and fleet", _MEASURED)
@output_options()
def command(model: str | None, form: str, color: str, quiet: bool, **given: Any) -> None:
    """Decide whether to offload KV cache, and size the tier.

    MODEL is a name (llama-3.1-8b), a Hub id, or a config.json or its folder.

    \b
    Examples:
      warmset plan llama-3.1-8b --gpu h100-80gb --sessions 200 --context 8192 --host-ram 512GiB
      warmset plan deepseek-v3 --gpu h200 --gpus 8 --sessions 500 --turns 30 --tokens-per-turn 1000
      warmset plan llama-3.1-8b --metrics http://localhost:8000 --sessions 200 --context 8192
      warmset plan llama-3.1-8b --hbm-kv 28GiB --trace mooncake:trace.jsonl.gz --block-tokens 512
      warmset plan --layers 32 --kv-heads 8 --head-dim 128 --sessions 200 --context 8192 --hbm-kv 28GiB
    """
    from warmset import api
    from warmset.report.plan import document
    from warmset.report.plan_payload import payload
    from warmset.units import parse_ratio

    lmcache = api.lmcache_engine(given["lmcache"])
    plan = api.plan(
        model,
        sessions=given["sessions"],
        context_tokens=given["context"],
        turns=given["turns"],
        tokens_per_turn=given["tokens_per_turn"],
        shared_prefix_tokens=given["shared_prefix"],
        prefix_caching=not given["no_prefix_caching"],
        hybrid_manager=not given["no_hybrid_manager"],
        headroom=parse_ratio(given["headroom"], what="value of `--headroom`", maximum=10.0),
        storage=(
            *(_storage(n, "disk") for n in given["disk"]),
            *(_storage(n, "object") for n in given["object_"]),
        ),
        lmcache=lmcache,
        **_traffic(given, quiet=quiet),
        **{name: given[name] for name in _PASSED_ON},
    )
    launch = api.launch_for(plan, model=api.served_name(model), lmcache=lmcache)
    emit(form, lambda: payload(plan, launch), lambda: document(plan, launch), color=color)


def _traffic(given: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """The trace and how near to its best the tier must come."""
    if given["trace"] is None:
        said = [name for name in READING if given[name] not in (None, ()) and given[name] is not False]
        alone = said + ["within"] * (given["within"] is not None)
        if alone:
            from warmset.errors import InputError

            option = {"columns": "column"}.get(alone[0], alone[0]).replace("_", "-")
            raise InputError(f"`--{option}` belongs to a trace", hint="add `--trace FILE`, or leave it out")
        return {}
    from warmset.traces import read

    with progress("reading", quiet=quiet) as show:
        found = read(given["trace"], replace(read_options(given), progress=show))
    for note in found.notes:
        talk(note, quiet=quiet)
    for reason, count in found.skipped.items():
        talk(f"skipped {count:,}: {reason}", quiet=quiet)
    return {"trace": found.trace, "within_points": 1.0 if given["within"] is None else given["within"]}


def _storage(name: str, kind: str) -> str:
    from warmset.errors import InputError
    from warmset.hardware import storage, storages

    found = storage(name)
    if found.kind != kind:
        known = ", ".join(s.name for s in storages() if s.kind == kind)
        raise InputError(f"`{name}` is not of the kind that `--{kind}` names", hint=f"known: {known}")
    return found.name


# Options whose names are those of `api.plan` and `PlanRequest`.
_PASSED_ON = (
    "layers", "kv_heads", "head_dim", "download", "kv_dtype", "gpu", "gpus", "tp", "pp", "dp", "dcp", "hbm_kv",
    "metrics", "log", "kv_cache_tokens", "gpu_memory_utilization", "block_size", "max_model_len", "speculative_tokens",
    "platform", "engine", "backend", "host_ram", "container_limit", "shm", "prefill_tps", "load_gbps", "ram_price",
    "replicas",
)  # fmt: skip
