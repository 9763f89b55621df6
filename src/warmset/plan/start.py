"""Whether the server starts with this pool: vLLM wants room for one request of the longest context that it serves."""

from typing import NamedTuple

from warmset.geometry import Footprint
from warmset.plan.device import longest_context
from warmset.plan.record import Device
from warmset.plan.request import PlanRequest
from warmset.plan.surface import context_flag
from warmset.plan.words import ServerWords
from warmset.servers import Engine
from warmset.units import format_size, format_tokens

_MEASURE = "measure with `--metrics` or `--log`"


class Start(NamedTuple):
    """The longest context that the command must name (None: the model's own), and what to say about it."""

    max_model_len: int | None
    notes: tuple[str, ...]


def start(
    request: PlanRequest,
    footprint: Footprint,
    server: Engine,
    device: Device,
    reserved_blocks: int,
    words: ServerWords | None,
) -> Start:
    """Hold the longest context served against the pool; `footprint` is that with the connector, where there is one."""

    def holds(kv_bytes: int) -> int:
        return longest_context(footprint, footprint.usable_blocks(kv_bytes, reserved_blocks))

    notes = []
    if device.estimated and device.low_bytes < footprint.kv_bytes_for(
        footprint.blocks_per_session(request.context_tokens) + reserved_blocks
    ):
        notes.append(
            f"with the low estimate of {format_size(device.low_bytes)} the device holds not even one session of "
            f"{format_tokens(request.context_tokens)}, and no tier could fix that: {_MEASURE}"
        )
    running = words.max_model_len if words is not None else None
    if running is not None and running < request.context_tokens:
        running = None
    asked = request.max_model_len or running or request.geometry.max_context_tokens
    best, low = holds(device.kv_budget_bytes), holds(device.low_bytes)
    if asked is None or low >= asked:
        return Start(request.max_model_len or running, tuple(notes))
    flag = context_flag(server)
    whose = "the model's" if asked == request.geometry.max_context_tokens else f"`{flag} {asked}`, its"
    if server.server != "vllm":
        if best < asked:
            notes.append(
                f"the device holds one request of up to {format_tokens(best)}, and {whose} longest context is "
                f"{format_tokens(asked)}: SGLang starts all the same and refuses longer requests"
            )
        return Start(request.max_model_len or running, tuple(notes))
    refuses = "vLLM does not start where the pool cannot hold one request of the longest context"
    # What surely starts, unless that is shorter than the requests of this plan.
    wanted = _longest(request)
    fits = low if low >= wanted else min(best, wanted)
    if best >= asked:
        notes.append(
            f"{refuses}: with the low estimate of {format_size(device.low_bytes)} that would be the case for {whose} "
            f"{format_tokens(asked)}, and `{flag} {fits}` helps"
        )
        return Start(request.max_model_len or running, tuple(notes))
    notes.append(
        f"{refuses}: {whose} {format_tokens(asked)} are more than the {format_tokens(best)} that fit, so it needs "
        f"`{flag} {fits}`" + (f", or up to {best} where the estimate holds" if fits < best else "")
    )
    return Start(fits if request.max_model_len is None else request.max_model_len, tuple(notes))


def _longest(request: PlanRequest) -> int:
    """Tokens of the longest request that should be served."""
    if request.trace is None:
        return request.context_tokens
    replies = request.trace.output_tokens.clip(min=0)
    return max(request.context_tokens, int((request.trace.input_tokens + replies).max()))
