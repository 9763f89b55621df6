"""The device's KV budget where nobody measured it: memory × utilization − weights − everything else, with a band."""

from dataclasses import dataclass

from warmset.errors import InputError
from warmset.geometry import Geometry
from warmset.hardware import Accelerator
from warmset.servers import Engine
from warmset.units import GIB, format_size

# What the driver, the framework and vendors' libraries keep of the memory that the driver reports: H100 80GB
# reports 79.65 GiB to nvidia-smi and 79.19 GiB to CUDA.
_VISIBLE_RATIO = {"low": 0.990, "best": 0.994, "high": 1.0}
# Activations of one prefill step, CUDA graphs, communication buffers, the context of the driver: 1-5 GiB on start-up
# logs of dense and mixture-of-experts models from 8B to 671B.
_OVERHEAD_BYTES = {"low": 5 * GIB, "best": 5 * GIB // 2, "high": GIB}
_OVERHEAD_PER_PEER_BYTES = {"low": GIB, "best": GIB // 2, "high": GIB // 4}
# Tensor and pipeline parallel ranks do not share all weights evenly (embeddings, norms, the first and last stage).
_WEIGHT_SHARE = {"low": 1.04, "best": 1.01, "high": 1.0}
# SGLang's own share depends on the device; vLLM's is a documented default per version.
_SGLANG_UTILIZATION = 0.88


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
    share = (
        utilization or server.default("gpu_memory_utilization") if server.server == "vllm" else utilization
    )
    used = float(share or _SGLANG_UTILIZATION)
    bands = {band: _one(device, weights, used, ranks, band) for band in ("low", "best", "high")}
    origin = "as given" if utilization else f"default of {server}"
    per_rank = round(weights * _WEIGHT_SHARE["best"] / ranks) if ranks > 1 else weights
    return Estimate(
        low_bytes=bands["low"],
        best_bytes=bands["best"],
        high_bytes=bands["high"],
        terms=(
            ("memory", round(device.memory_bytes * _VISIBLE_RATIO["best"])),
            ("usable", round(device.memory_bytes * _VISIBLE_RATIO["best"] * used)),
            ("weights", -per_rank),
            ("activations and graphs", -_overhead(ranks, "best")),
        ),
        assumptions=(
            f"{device.label}: {format_size(device.memory_bytes)} "
            + ("as its driver reports" if device.memory_basis == "driver" else "by its data sheet")
            + f", × {used:g} GPU memory utilization ({origin})",
            f"weights take {format_size(weights)} per replica ({_weights_origin(geometry)})",
            f"activations, graphs and communication take {format_size(_overhead(ranks, 'best'))} per device "
            f"({format_size(_overhead(ranks, 'high'))} to {format_size(_overhead(ranks, 'low'))}): "
            "a server's own figure replaces this estimate (`--metrics` or `--log`)",
        ),
    )


def _one(device: Accelerator, weights: int, utilization: float, ranks: int, band: str) -> int:
    share = _WEIGHT_SHARE[band] if ranks > 1 else 1.0
    free = (
        device.memory_bytes * _VISIBLE_RATIO[band] * utilization
        - weights * share / ranks
        - _overhead(ranks, band)
    )
    return max(0, int(free)) * ranks


def _overhead(ranks: int, band: str) -> int:
    return _OVERHEAD_BYTES[band] + (_OVERHEAD_PER_PEER_BYTES[band] if ranks > 1 else 0)


def _weights_origin(geometry: Geometry) -> str:
    if geometry.stored_weight_bytes is not None:
        return "as published"
    return f"{(geometry.parameters or 0) / 1e9:,.1f} B parameters in {geometry.native_dtype}"
