"""The device's KV budget, from the best source that was given."""

from dataclasses import replace
from typing import NamedTuple

from warmset.errors import InputError
from warmset.geometry import Footprint
from warmset.hardware import Accelerator
from warmset.plan.estimate import estimate
from warmset.plan.record import Device
from warmset.plan.request import PlanRequest
from warmset.plan.sessions import sessions_in
from warmset.plan.words import ServerWords
from warmset.servers import Engine
from warmset.units import MAX_BYTES, format_tokens


class Budget(NamedTuple):
    """A device and what had to be assumed or said about it."""

    device: Device
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]


def budget(
    request: PlanRequest,
    footprint: Footprint,
    server: Engine,
    words: ServerWords | None,
    gpu: Accelerator | None,
) -> Budget:
    """The KV budget of one replica; see `PlanRequest` for the sources."""
    if words is not None:
        kv_bytes, notes = _from_words(request, footprint, server, words)
        source = "metrics" if request.metrics is not None else "log"
        device = _device(request, footprint, kv_bytes, server, gpu)
        return Budget(replace(device, source=source), (), (*words.notes, *notes))  # type: ignore[arg-type]
    if request.kv_cache_tokens is not None:
        kv_bytes, notes = _from_tokens(
            request, footprint, server, request.kv_cache_tokens, request.max_model_len
        )
        return Budget(
            replace(_device(request, footprint, kv_bytes, server, gpu), source="kv_cache_tokens"),
            (f"the device pool is what a server logged as {format_tokens(request.kv_cache_tokens)}",),
            notes,
        )
    if request.hbm_kv_bytes is not None:
        return Budget(_device(request, footprint, request.hbm_kv_bytes, server, gpu), (), ())
    assert gpu is not None
    guess = estimate(request.geometry, gpu, server, request.gpu_memory_utilization, request.ranks)
    device = replace(
        _device(request, footprint, guess.best_bytes, server, gpu),
        source="estimate",
        low_bytes=guess.low_bytes,
        high_bytes=guess.high_bytes,
        terms=guess.terms,
    )
    return Budget(device, guess.assumptions, ())


def _device(
    request: PlanRequest, footprint: Footprint, kv_bytes: int, server: Engine, gpu: Accelerator | None
) -> Device:
    if kv_bytes > MAX_BYTES:
        raise InputError(
            f"a device pool of `{kv_bytes:,}` bytes is absurdly large", hint="check the source of the budget"
        )
    reserved = reserved_blocks(server)
    usable = footprint.usable_blocks(kv_bytes, reserved)
    per_session = footprint.blocks_per_session(request.context_tokens)
    shared_bytes = whole_block_tokens(request, footprint) * (footprint.pool_bytes_per_token or 0)
    shared_blocks = int(shared_bytes // footprint.pool_bytes_per_block)
    return Device(
        source="hbm_kv",
        kv_budget_bytes=kv_bytes,
        usable_bytes=usable * footprint.pool_bytes_per_block,
        reserved_bytes=(footprint.usable_blocks(kv_bytes, 0) - usable) * footprint.pool_bytes_per_block,
        bytes_per_block=footprint.kv_bytes_for(1),
        low_bytes=kv_bytes,
        high_bytes=kv_bytes,
        tokens=footprint.pool_tokens(kv_bytes, request.context_tokens, reserved_blocks=reserved),
        sessions=sessions_in(usable, per_session, per_session - shared_blocks, request.sessions),
        max_context_tokens=longest_context(footprint, usable),
        accelerator=gpu.name if gpu is not None else None,
    )


def reserved_blocks(server: Engine) -> int:
    """Blocks of every pool that the server keeps to itself."""
    return int(server.default("reserved_blocks") or 0)


def whole_block_tokens(request: PlanRequest, footprint: Footprint) -> int:
    """Tokens of the shared prefix that fill blocks: only these are kept once."""
    return request.shared_prefix_tokens // footprint.block_tokens * footprint.block_tokens


def longest_context(footprint: Footprint, usable_blocks: int) -> int:
    """Tokens of the longest single session that `usable_blocks` hold, up to the model's maximum; 0 if none."""
    low, high = 0, footprint.geometry.max_context_tokens or 2**30
    while low < high:
        middle = (low + high + 1) // 2
        if footprint.blocks_per_session(middle) <= usable_blocks:
            low = middle
        else:
            high = middle - 1
    return low


def _from_words(
    request: PlanRequest, footprint: Footprint, server: Engine, words: ServerWords
) -> tuple[int, tuple[str, ...]]:
    notes: list[str] = []
    if words.engines > 1 and request.dp not in (1, words.engines):
        raise InputError(
            f"the metrics are those of {words.engines} data-parallel engines, not of `--dp {request.dp}`",
            hint=f"use `--dp {words.engines}`, or drop `--dp`",
        )
    multi = len(footprint.tables) > 1
    if words.block_tokens is not None and not multi and words.block_tokens != footprint.block_tokens:
        notes.append(
            f"the server's blocks hold {format_tokens(words.block_tokens)}, and these settings make it "
            f"{footprint.block_tokens}: check the model, `--block-size` and `--platform`"
        )
    if words.kv_bytes_per_rank is not None:
        return words.kv_bytes_per_rank * footprint.world, tuple(notes)
    if words.blocks is not None:
        if multi:
            notes.append(
                "this model's layers share one pool of blocks in several groups: num_gpu_blocks × block_size is not "
                "its capacity; the pool is taken as blocks × the bytes of one block"
            )
        return words.blocks * footprint.pool_bytes_per_block, tuple(notes)
    if words.tokens is None:
        raise InputError(
            "the server's words hold no pool size", hint="scrape it once it has started, or give `--hbm-kv`"
        )
    kv_bytes, more = _from_tokens(
        request, footprint, server, words.tokens, request.max_model_len or words.max_model_len
    )
    return kv_bytes, (*notes, *more)


def _from_tokens(
    request: PlanRequest, footprint: Footprint, server: Engine, tokens: int, max_model_len: int | None
) -> tuple[int, tuple[str, ...]]:
    """The inverse of the server's own `KV cache size: N tokens`, which it derives from its maximum context."""
    if len(footprint.tables) == 1 and footprint.tables[0].first.is_full:
        if server.server == "sglang" and footprint.pool_bytes_per_token is not None:
            return int(tokens * footprint.pool_bytes_per_token), ()  # its tokens are slots
        # One table of growing blocks: vLLM counts them all, its own one too, and rounds down.
        blocks = -(-tokens // footprint.block_tokens)
        return blocks * footprint.pool_bytes_per_block, ()
    context = max_model_len or request.geometry.max_context_tokens
    if context is None:
        raise InputError(
            f"a KV cache size of `{tokens:,}` tokens says nothing for this model without its maximum context",
            hint="add `--max-model-len` as the server had it, or give `--hbm-kv`, `--metrics` or `--log`",
        )
    one = footprint.capacity(footprint.per_rank.pool_bytes_per_block * 10**6, context)
    blocks = max(1, round(tokens / context * one.blocks_per_request))
    return blocks * footprint.pool_bytes_per_block, (
        f"this model's layers grow in different ways, so the server's token count follows from its maximum context "
        f"(taken as {context:,} tokens): bytes from `--metrics`, `--log` or `--hbm-kv` are safer",
    )
