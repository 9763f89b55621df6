"""Chunk granularity: a tier that stores whole chunks of several blocks loses the tails."""

from dataclasses import replace

import numpy as np

from warmset.curves.exact import lru_curve
from warmset.curves.record import Curve, Order, Weight
from warmset.errors import InputError
from warmset.traces.record import Trace
from warmset.units import format_tokens


def chunked_curve(
    trace: Trace,
    chunk_tokens: int,
    *,
    order: Order = "tail-first",
    weight: Weight = "tokens",
    warmup_ratio: float = 0.0,
) -> Curve:
    """The LRU curve of a tier that stores whole chunks, in blocks of the trace and over all of its blocks.

    Capacities and denominator are those of `lru_curve`, so the two compare: what tails lose is the difference.
    Raises InputError as `lru_curve` and `in_chunks` do.
    """
    whole = lru_curve(trace, order=order, weight=weight, warmup_ratio=warmup_ratio)
    chunks = lru_curve(in_chunks(trace, chunk_tokens), order=order, weight=weight, warmup_ratio=warmup_ratio)
    blocks = chunk_tokens // trace.block_tokens
    hits = chunks.cumulative_hit_tokens * (blocks if weight == "blocks" else 1)
    # A chunk needs room for all of its blocks.
    return replace(whole, cumulative_hit_tokens=np.repeat(hits, blocks))


def in_chunks(trace: Trace, chunk_tokens: int) -> Trace:
    """The same traffic as a tier with chunks of `chunk_tokens` sees it.

    A chunk is named by its last block, whose id stands for the whole prefix. The blocks after a request's
    last whole chunk, and blocks that are not full, cannot be stored: they stay in `input_tokens` and in no
    chunk, so ratios over prompt tokens show the loss.
    Raises InputError when the chunk is not a multiple of the trace's block.
    """
    blocks, rest = divmod(chunk_tokens, trace.block_tokens)
    if blocks < 1 or rest:
        raise InputError(
            f"a chunk of `{chunk_tokens}` tokens is not a whole number of blocks",
            hint=f"blocks of this trace hold {format_tokens(trace.block_tokens)}: give a multiple",
        )
    if trace.tokens_per_block is not None:
        raise InputError(
            "blocks of this trace differ in size, so they do not form chunks of equal size",
            hint="leave out `--chunk-tokens`",
        )
    lengths = np.diff(trace.offsets)
    chunks = np.minimum(trace.input_tokens // trace.block_tokens, lengths) // blocks
    offsets = np.concatenate(([0], np.cumsum(chunks)))
    if offsets[-1] == 0:
        raise InputError(f"no request fills a chunk of `{chunk_tokens}` tokens", hint="give a smaller chunk")
    within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], chunks)
    last_block = np.repeat(trace.offsets[:-1], chunks) + (within + 1) * blocks - 1
    names, dense = np.unique(trace.block_ids[last_block], return_inverse=True)
    return replace(
        trace,
        block_ids=dense.astype(np.int64),
        offsets=offsets.astype(np.int64),
        block_tokens=chunk_tokens,
        unique_blocks=len(names),
    )
