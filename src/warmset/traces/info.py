"""What a trace holds: sizes, reuse by kind, and the hit rate that no tier can exceed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warmset.traces.record import Trace


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean and percentiles of one count per request."""

    mean: float
    p50: float
    p90: float
    p99: float
    maximum: int


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """Facts of one trace. Ratios over `block_tokens_total` unless the name says otherwise.

    Attributes:
        block_tokens_total: tokens that listed blocks cover, the denominator of hit ratios.
        prompt_tokens: all prompt tokens, tails without a block included.
        ceiling_hit_tokens: tokens of blocks that an earlier request has read already: what an infinite tier hits.
        same_session_tokens: of these, blocks that an earlier request of the same session read.
        shared_prefix_tokens: of these, blocks that only other sessions read before.
        sessions: number of sessions.
        sessions_from: "trace", or "prefixes" where they are inferred (see `infer_sessions`).
        span_seconds: from the first to the last arrival; None where times are unknown.
    """

    requests: int
    accesses: int
    unique_blocks: int
    block_tokens: int
    block_tokens_total: int
    prompt_tokens: int
    output_tokens: int | None
    ceiling_hit_tokens: int
    same_session_tokens: int
    shared_prefix_tokens: int
    sessions: int
    sessions_from: str
    span_seconds: float | None
    input: Distribution
    output: Distribution | None
    blocks: Distribution

    @property
    def ceiling_hit_ratio(self) -> float | None:
        """Share of block tokens that an infinite tier hits; None where there are no block tokens."""
        return self.ceiling_hit_tokens / self.block_tokens_total if self.block_tokens_total else None


def info(trace: Trace) -> TraceInfo:
    """Read the facts off a trace with dense ids."""
    tokens = tokens_per_access(trace)
    ids = trace.block_ids
    known = trace.session_ids is not None and bool(np.all(trace.session_ids >= 0))
    sessions = trace.session_ids if known and trace.session_ids is not None else infer_sessions(trace)
    first = _first_in_order(ids.astype(np.int64))
    per_access = np.repeat(sessions, np.diff(trace.offsets))
    first_of_session = _first_in_order(per_access * max(1, trace.unique_blocks) + ids)
    reused = int(tokens[~first].sum())
    same = int(tokens[~first_of_session].sum())
    outputs = trace.output_tokens[trace.output_tokens >= 0]
    times = trace.arrival_seconds[~np.isnan(trace.arrival_seconds)]
    return TraceInfo(
        requests=trace.requests,
        accesses=trace.accesses,
        unique_blocks=trace.unique_blocks,
        block_tokens=trace.block_tokens,
        block_tokens_total=int(tokens.sum()),
        prompt_tokens=int(trace.input_tokens.sum()),
        output_tokens=int(outputs.sum()) if len(outputs) else None,
        ceiling_hit_tokens=reused,
        same_session_tokens=same,
        shared_prefix_tokens=reused - same,
        sessions=len(np.unique(sessions)),
        sessions_from="trace" if known else "prefixes",
        span_seconds=float(times.max() - times.min()) if len(times) else None,
        input=_distribution(trace.input_tokens),
        output=_distribution(outputs) if len(outputs) else None,
        blocks=_distribution(np.diff(trace.offsets)),
    )


def tokens_per_access(trace: Trace) -> NDArray[np.int64]:
    """Tokens that each listed block covers."""
    if trace.tokens_per_block is not None:
        return trace.tokens_per_block.astype(np.int64)
    lengths = np.diff(trace.offsets)
    position = np.arange(trace.accesses) - np.repeat(trace.offsets[:-1], lengths)
    left = np.repeat(trace.input_tokens, lengths) - position * trace.block_tokens
    covered: NDArray[np.int64] = np.clip(left, 0, trace.block_tokens)
    return covered


def infer_sessions(trace: Trace) -> NDArray[np.int64]:
    """Sessions told from prefixes: a request continues the one whose prompt it extends.

    That is so where the deepest block that it reuses was the last one, or the last but a partial one, of the
    request that read it last. A request that branches off earlier, or reuses nothing, starts a session.
    """
    sessions = np.empty(trace.requests, np.int64)
    last_reader = np.full(trace.unique_blocks, -1, np.int64)
    depth = np.zeros(trace.requests, np.int64)
    count = 0
    offsets = trace.offsets.tolist()
    for request in range(trace.requests):
        blocks = trace.block_ids[offsets[request] : offsets[request + 1]]
        # Residency is a prefix: blocks seen before come first.
        seen = int(np.count_nonzero(last_reader[blocks] >= 0))
        reader = int(last_reader[blocks[seen - 1]]) if seen else -1
        if reader >= 0 and seen >= depth[reader] - 1 and seen > 1:
            sessions[request] = sessions[reader]
        else:
            sessions[request] = count
            count += 1
        last_reader[blocks] = request
        depth[request] = len(blocks)
    return sessions


def _first_in_order(keys: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which accesses are the first with their key."""
    import pyarrow as pa

    codes = pa.array(keys).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    # Codes are given in order of first appearance: a first access raises their maximum.
    latest = np.maximum.accumulate(codes) if len(codes) else codes
    first: NDArray[np.bool_] = np.concatenate(([True], latest[1:] != latest[:-1]))[: len(codes)]
    return first


def _distribution(values: NDArray[np.int64]) -> Distribution:
    p50, p90, p99 = (float(p) for p in np.percentile(values, (50, 90, 99)))
    return Distribution(float(values.mean()), p50, p90, p99, int(values.max()))
