"""SGLang's own host tier: HiCache."""

from warmset.errors import Unsupported
from warmset.launch.amounts import in_whole_gb_per_rank
from warmset.launch.parts import Parts, Process
from warmset.launch.request import LaunchRequest
from warmset.launch.surface import Surface
from warmset.servers import inspected
from warmset.units import GB

IMAGE = "lmsysorg/sglang:v{}"


def parts(request: LaunchRequest) -> Parts:
    """A host pool in every rank."""
    engine = request.engine
    if engine.server != "sglang":
        raise Unsupported(
            f"backend `hicache` is a tier of SGLang, not of {engine.server}",
            hint=f"use `--engine sglang@{inspected('sglang')[-1]}`, or `--backend native`",
        )
    surface = Surface(engine)
    size = in_whole_gb_per_rank(surface.flag("--hicache-size"), request)
    argv = ["python", "-m", "sglang.launch_server", surface.flag("--model-path"), request.served_model]
    for name, value, default in (
        ("--tp-size", request.tp, 1),
        ("--pp-size", request.pp, 1),
        ("--dp-size", request.dp, 1),
        ("--kv-cache-dtype", _kv_dtype(request.kv_dtype), "auto"),
        ("--page-size", request.block_size, None),
        ("--context-length", request.max_model_len, None),
        ("--port", request.port, None),
    ):
        if value != default:
            argv += [surface.flag(name), str(value)]
    argv += [
        surface.flag("--enable-hierarchical-cache"),
        size.setting,
        size.value,
        surface.flag("--enable-metrics"),
    ]
    return Parts(
        server=Process(
            "sglang",
            tuple(argv),
            IMAGE.format(engine.version),
            request.port or engine.default("default_port"),
        ),
        host_memory_bytes=int(size.value) * GB * request.devices * request.pools,
        conversions=(size,),
        notes=(
            "the host pool of each rank must be larger than its device pool, or SGLang refuses to start",
            "--hicache-size counts 10^9 bytes for each rank and overrides --hicache-ratio",
            f"pages are written by the policy `{engine.default('hicache_write_policy')}`, this version's default",
            "SGLang exports metrics only with --enable-metrics, which is set",
            *(
                (f"this model has two kinds of cache, and {engine} takes the whole size for each",)
                if request.pools > 1
                else ()
            ),
        ),
    )


def _kv_dtype(name: str) -> str:
    """SGLang's own name of a KV type."""
    return {"fp16": "auto", "bf16": "auto", "fp8": "fp8_e4m3"}.get(name, name)
