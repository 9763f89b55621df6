"""Traces of requests whose blocks are given by their ids."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from warmset.traces import Trace


def small_trace(
    requests: Sequence[Sequence[int]], block_tokens: int = 16, input_tokens: Sequence[int] | None = None
) -> Trace:
    """A request a second, outputs not known; prompts end with their last block unless told otherwise."""
    lengths = [len(request) for request in requests]
    ids = list(chain.from_iterable(requests))
    return Trace(
        block_ids=np.array(ids, dtype=np.int32),
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        arrival_seconds=np.arange(len(requests), dtype=np.float64),
        input_tokens=np.array(input_tokens or [n * block_tokens for n in lengths], dtype=np.int64),
        output_tokens=np.full(len(requests), -1, dtype=np.int64),
        session_ids=None,
        block_tokens=block_tokens,
        tokens_per_block=None,
        unique_blocks=len(set(ids)),
    )
