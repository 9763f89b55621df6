"""Loading against computing again: tokens per second both ways, for every tier that is considered."""

from fractions import Fraction
from typing import NamedTuple

from warmset.geometry import Footprint, Geometry
from warmset.hardware import Accelerator, Storage
from warmset.plan.charge import Charge
from warmset.plan.record import BreakEven
from warmset.plan.request import PlanRequest

# Prefill of long prompts reaches 40-60 % of dense peak on tuned kernels, dense models and mixtures of experts alike.
PREFILL_EFFICIENCY = 0.5


class Prefill(NamedTuple):
    """Tokens per second of one replica, or None with the reason; `basis` says where it comes from."""

    tokens_per_second: float | None
    basis: str


def prefill(request: PlanRequest, footprint: Footprint, gpu: Accelerator | None) -> Prefill:
    """Prefill speed of one replica at the demanded context: measured, or peak × efficiency."""
    if request.prefill_tokens_per_second is not None:
        return Prefill(request.prefill_tokens_per_second, "prefill as measured (`--prefill-tps`)")
    geometry = request.geometry
    active = geometry.active_parameters or geometry.parameters
    if gpu is None or active is None:
        missing = "`--gpu`" if gpu is None else "the model's parameter count"
        return Prefill(None, f"prefill speed is not known without {missing} or `--prefill-tps`")
    fp8 = gpu.fp8_flops if _computes_in_fp8(geometry) else None
    peak, precision = (fp8, "fp8") if fp8 else (gpu.bf16_flops, "bf16")
    per_token = 2 * active + _attention_flops(footprint, request.context_tokens)
    speed = peak * PREFILL_EFFICIENCY * request.ranks / per_token
    return Prefill(
        speed,
        f"prefill at {PREFILL_EFFICIENCY:.0%} of {peak * request.ranks / 1e12:,.0f} TFLOPS dense {precision}, "
        f"{per_token / 1e9:,.1f} GFLOP per token at this context",
    )


def break_even(
    request: PlanRequest,
    footprint: Footprint,
    charge: Charge,
    gpu: Accelerator | None,
    stores: tuple[Storage, ...],
) -> tuple[BreakEven, ...]:
    """One line per tier: host memory first, then each storage in the order given."""
    speed = prefill(request, footprint, gpu)
    # Every rank loads its own share (or its own copy) over its own link.
    device_bytes = footprint.bytes_per_session(request.context_tokens) / request.context_tokens
    host = _host(request, gpu, speed, device_bytes)
    stored_bytes = device_bytes * charge.copies_ratio
    return (host, *(_lower(store, stored_bytes, speed, host) for store in stores))


def _lower(store: Storage, per_token: Fraction, speed: Prefill, host: BreakEven) -> BreakEven:
    """A lower tier's line. What it reads goes through host memory, whose way to the device may be the narrower one."""
    rate = float(store.read_bytes_per_second)
    basis = f"{rate / 1e9:,.1f} GB/s usable of {store.raw_read_bytes_per_second / 1e9:,.1f}"
    link = host.load_tokens_per_second
    if link is not None and per_token and link < rate / float(per_token):
        rate = link * float(per_token)
        basis += f", but host memory loads {rate / 1e9:,.1f}"
    return _line(store.kind, store.label, rate, per_token, speed, basis)


def _host(request: PlanRequest, gpu: Accelerator | None, speed: Prefill, per_token: Fraction) -> BreakEven:
    if request.load_bytes_per_second is not None:
        return _line(
            "host", "host memory", request.load_bytes_per_second, per_token, speed, "load as measured"
        )
    if gpu is None:
        return _line("host", "host memory", None, per_token, speed, "load speed is not known without `--gpu`")
    link = gpu.host_link
    if link.unified:
        return _line("host", "host memory", None, per_token, speed, "host and device share one memory")
    rate = float(link.usable_bytes_per_second * request.ranks)
    each = f"{request.ranks} × " if request.ranks > 1 else ""
    basis = f"{each}{link.usable_bytes_per_second / 1e9:,.0f} GB/s usable of {link.raw_bytes_per_second / 1e9:,.0f}"
    return _line("host", f"host memory over {link.label}", rate, per_token, speed, basis)


def _line(
    tier: str, label: str, rate: float | None, per_token: Fraction, speed: Prefill, basis: str
) -> BreakEven:
    tokens = rate / float(per_token) if rate is not None and per_token else None
    prefilled = speed.tokens_per_second
    return BreakEven(
        tier=tier,  # type: ignore[arg-type]
        label=label,
        load_bytes_per_second=rate,
        load_tokens_per_second=tokens,
        prefill_tokens_per_second=prefilled,
        ratio=tokens / prefilled if tokens is not None and prefilled else None,
        note=f"{basis}; {speed.basis}",
    )


def _attention_flops(footprint: Footprint, context_tokens: int) -> float:
    """Score and value products per token, averaged over a causal prompt; latent layers are left out."""
    heads = footprint.geometry.attention_heads
    if heads is None:
        return 0.0
    total = 0.0
    for rank in footprint.ranks:
        for page in rank.pages:
            if page.kind in ("full", "window", "chunk"):
                reach = min(context_tokens, page.window_tokens or page.chunk_tokens or context_tokens)
                total += heads * (page.head_dim + page.value_head_dim) * reach
    return total


def _computes_in_fp8(geometry: Geometry) -> bool:
    """Whether the stored weights are one byte each; four-bit weights are computed in 16 bits on most devices."""
    stored, parameters = geometry.stored_weight_bytes, geometry.parameters
    return stored is not None and parameters is not None and 0.9 < stored / parameters < 1.5
