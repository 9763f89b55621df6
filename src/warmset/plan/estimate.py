"""The device's KV budget where nobody measured it, with a band.

vLLM: memory × utilization − weights − everything else. SGLang: (memory − what is taken before loading) × static share −
weights (`_profile_available_bytes`: free after loading − free before it × (1 − `mem_fraction_static`)).
"""

from dataclasses import dataclass

from warmset.errors import InputError
from warmset.geometry import Geometry
from warmset.hardware import Accelerator
from warmset.servers import Engine
from warmset.units import GIB, MIB, format_size

# What the driver, the framework and vendors' libraries keep of the memory that the driver reports: H100 80GB
# reports 79.65 GiB to nvidia-smi and 79.19 GiB to CUDA.
_VISIBLE_RATIO = {"low": 0.990, "best": 0.994, "high": 1.0}
# Activations of one prefill step, CUDA graphs, communication buffers, the context of the driver: 1-5 GiB on start-up
# logs of dense and mixture-of-experts models from 8B to 671B.
_OVERHEAD_BYTES = {"low": 5 * GIB, "best": 5 * GIB // 2, "high": GIB}
_OVERHEAD_PER_PEER_BYTES = {"low": GIB, "best": GIB // 2, "high": GIB // 4}
# Tensor and pipeline parallel ranks do not share all weights evenly (embeddings, norms, the first and last stage).
_WEIGHT_SHARE = {"low": 1.04, "best": 1.01, "high": 1.0}
# What a process of SGLang has taken before it loads weights: the context of the driver, communication buffers.
# The rest of what it needs is outside its static share (`--mem-fraction-static`: weights and KV cache alone).
_BEFORE_LOADING_BYTES = {"low": 3 * GIB // 2, "best": 3 * GIB // 4, "high": GIB // 4}
# Its default keeps memory back by the size of the device: below so many MiB, this many tokens of a prefill chunk, and
# this many sequences in decode graphs with fewer than four ranks and with more (server_args.py
# `_handle_gpu_memory_settings`, 0.5.3 and newer; 0.4.10 keeps a little less, which the band's high end covers).
_SGLANG_STEPS = (
    (20 * 1024, 2048, 8, 8),
    (35 * 1024, 2048, 24, 80),
    (60 * 1024, 4096, 32, 160),
    (160 * 1024, 8192, 256, 512),
    (float("inf"), 16384, 512, 512),
)
_SGLANG_FLOOR_MIB = (60 * 1024, 10 * 1024)
# Multimodal models keep more back; older versions less.
_SGLANG_DEFAULT = {"low": 0.97, "best": 1.0, "high": 1.04}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A band of KV bytes over all ranks of one replica; `terms` are those of the best guess, per rank."""

    low_bytes: int
    best_bytes: int
    high_bytes: int
    terms: tuple[tuple[str, int], ...]
    assumptions: tuple[str, ...]


def estimate(
    geometry: Geometry, device: Accelerator, server: Engine, utilization: float | None, ranks: int
) -> Estimate:
    """Estimate the KV budget of one replica.

    Raises InputError where the size of the weights is not known.
    """
    weights = geometry.weight_bytes
    if weights is None:
        raise InputError(
            "the size of the model's weights is not known, so the KV budget cannot be estimated",
            hint="name a model of the catalogue, or give the budget by `--hbm-kv`, `--metrics` or `--log`",
        )
    static = server.server != "vllm"
    used = {band: _share(device, server, utilization, ranks, band) for band in _VISIBLE_RATIO}
    bands = {band: _one(device, weights, used[band], ranks, band, static=static) for band in _VISIBLE_RATIO}
    origin = "as given" if utilization else f"default of {server}"
    share = "of memory for weights and KV cache" if static else "GPU memory utilization"
    per_rank = round(weights * _WEIGHT_SHARE["best"] / ranks) if ranks > 1 else weights
    visible = round(device.memory_bytes * _VISIBLE_RATIO["best"])
    kept = {band: _overhead(ranks, band, static=static) for band in _VISIBLE_RATIO}
    what = "the driver's context and communication" if static else "activations, graphs and communication"
    band = (
        f"{format_size(kept['best'])} per device ({format_size(kept['high'])} to {format_size(kept['low'])})"
    )
    return Estimate(
        low_bytes=bands["low"],
        best_bytes=bands["best"],
        high_bytes=bands["high"],
        terms=(
            ("memory", visible),
            ("context and communication", -kept["best"]),
            ("usable", round((visible - kept["best"]) * used["best"])),
            ("weights", -per_rank),
        )
        if static
        else (
            ("memory", visible),
            ("usable", round(visible * used["best"])),
            ("weights", -per_rank),
            ("activations and graphs", -kept["best"]),
        ),
        assumptions=(
            f"{device.label}: {format_size(device.memory_bytes)} "
            + ("as its driver reports" if device.memory_basis == "driver" else "by its data sheet")
            + f", × {used['best']:g} {share} ({origin})",
            f"weights take {format_size(weights)} per replica ({_weights_origin(geometry)})",
            f"{what} take {band}: a server's own figure replaces this estimate (`--metrics` or `--log`)",
        ),
    )


def _share(device: Accelerator, server: Engine, given: float | None, ranks: int, band: str) -> float:
    """The share of a device's memory that the server may use: as given, else its default."""
    if given is not None:
        return given
    if server.server == "vllm":
        return float(server.default("gpu_memory_utilization"))
    memory_mib = device.memory_bytes / MIB
    chunk, few, many = next(step[1:] for step in _SGLANG_STEPS if memory_mib < step[0])
    kept_mib = 512 + chunk * 1.5 + (few if ranks < 4 else many) * 2 + ranks / 8 * 1024
    large, floor = _SGLANG_FLOOR_MIB
    if memory_mib > large:
        kept_mib = max(kept_mib, floor)
    return min(0.95, round(max(0.0, 1 - kept_mib / memory_mib) * _SGLANG_DEFAULT[band], 3))


def _one(device: Accelerator, weights: int, share: float, ranks: int, band: str, *, static: bool) -> int:
    own = weights * (_WEIGHT_SHARE[band] if ranks > 1 else 1.0) / ranks
    memory, kept = device.memory_bytes * _VISIBLE_RATIO[band], _overhead(ranks, band, static=static)
    # SGLang shares out what is free before it loads; vLLM's share has to hold everything.
    free = (memory - kept) * share - own if static else memory * share - own - kept
    return max(0, int(free)) * ranks


def _overhead(ranks: int, band: str, *, static: bool) -> int:
    own = _BEFORE_LOADING_BYTES if static else _OVERHEAD_BYTES
    return own[band] + (_OVERHEAD_PER_PEER_BYTES[band] if ranks > 1 else 0)


def _weights_origin(geometry: Geometry) -> str:
    if geometry.stored_weight_bytes is not None:
        return "as published"
    return f"{(geometry.parameters or 0) / 1e9:,.1f} B parameters in {geometry.native_dtype}"
