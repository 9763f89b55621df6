"""What would make a single context fit a device that is too small for it: measured against the model, not guessed."""

from dataclasses import replace

from warmset.errors import InputError
from warmset.geometry import Footprint
from warmset.plan.device import longest_context, reserved_blocks
from warmset.plan.record import Device
from warmset.plan.request import PlanRequest
from warmset.plan.spread import next_larger
from warmset.plan.surface import context_flag, kv_dtype_value, pool_flags
from warmset.servers import Engine
from warmset.units import format_bytes, format_size, format_tokens

_SMALLER_DTYPES = ("fp8",)


def fixes(
    request: PlanRequest, server: Engine, footprint: Footprint, device: Device, server_says: int | None
) -> tuple[str, ...]:
    """Things to change, the cheapest first; `server_says` is the longest context by the server's own log."""
    found = []
    reserved = reserved_blocks(server)
    longest = server_says or device.max_context_tokens
    if 0 < longest < request.context_tokens:
        found.append(
            f"serve contexts of {format_tokens(longest)}, the longest that fit: `{context_flag(server)} {longest}`"
        )
    for dtype in _SMALLER_DTYPES:
        fits = (
            _fits_with(request, server, device, reserved, kv_dtype=dtype)
            if request.kv_dtype in ("auto", "bf16", "fp16")
            else None
        )
        if fits:
            found.append(f"`--kv-cache-dtype {kv_dtype_value(server, dtype)}`: {fits}")
    if device.source == "estimate":
        tp = next_larger(request.geometry, request.tp, request.pp)
        spread = f"`--tp {tp}`" if tp is not None else f"`--pp {request.pp * 2}`"
        found.append(
            f"more devices: weights and KV cache are spread over {spread}"
            if device.kv_budget_bytes
            else f"more devices ({spread} or more), or quantised weights"
        )
    else:
        needed = footprint.kv_bytes_for(footprint.blocks_per_session(request.context_tokens) + reserved)
        found.append(
            f"{format_size(needed - device.kv_budget_bytes)} more KV memory on the device: more or larger devices, a "
            f"higher `{pool_flags(server)[0]}`"
        )
    return tuple(found)


def _fits_with(
    request: PlanRequest, server: Engine, device: Device, reserved: int, *, kv_dtype: str
) -> str | None:
    changed = replace(request, kv_dtype=kv_dtype)
    try:
        footprint = footprint_of(changed)
        blocks = footprint.usable_blocks(device.kv_budget_bytes, reserved)
        if footprint.blocks_per_session(request.context_tokens) <= blocks:
            taken = format_bytes(footprint.pool_bytes_per_session(request.context_tokens))
            served = request.max_model_len or request.geometry.max_context_tokens or 0
            # vLLM starts only where the longest context that it serves fits, too.
            short = server.server == "vllm" and longest_context(footprint, blocks) < served
            return f"one session then takes {taken}" + (
                f"; beside `{context_flag(server)} {request.context_tokens}`, or the server does not start"
                if short
                else ""
            )
    except InputError:
        pass  # The model cannot have that dtype: nothing to offer.
    return None


def footprint_of(request: PlanRequest, *, hybrid_manager: bool | None = None) -> Footprint:
    """The footprint of the request's model in its deployment."""
    return request.geometry.footprint(
        kv_dtype=request.kv_dtype,
        tp=request.tp,
        pp=request.pp,
        dcp=request.dcp,
        block_size=request.block_size,
        platform=request.platform,
        speculative_tokens=request.speculative_tokens,
        prefix_caching=request.prefix_caching,
        hybrid_manager=request.hybrid_manager if hybrid_manager is None else hybrid_manager,
    )
