"""The Trace record: a traffic log as flat arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival, and the prefix-chained blocks that each one reads.

    For request r, its blocks are `block_ids[offsets[r]:offsets[r + 1]]`, root first. Equal ids mean equal
    prefixes, across the whole trace. Ids are dense: 0 … unique_blocks-1, in order of first appearance.
    Chunks of a stream (`warmset.traces.stream`) differ in two things: their ids are 64-bit labels that are equal
    across chunks but not dense, and `unique_blocks` is -1.

    Attributes:
        block_ids: int32 or int64, one per block access.
        offsets: int64, requests + 1 entries, starting at 0.
        arrival_seconds: float64, one per request, relative to the first; NaN where unknown.
        input_tokens: int64, prompt tokens of each request (may exceed what the listed blocks cover).
        output_tokens: int64, generated tokens; -1 where unknown.
        session_ids: int64, dense per session; -1 where unknown. None when the format has no sessions.
        block_tokens: tokens per full block.
        tokens_per_block: int32 per access, tokens that this block covers; None means
            min(block_tokens, max(0, input_tokens - i * block_tokens)) for the i-th block of a request.
        source: where the trace came from, for reports.
    """

    block_ids: NDArray[np.int32] | NDArray[np.int64]
    offsets: NDArray[np.int64]
    arrival_seconds: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    session_ids: NDArray[np.int64] | None
    block_tokens: int
    tokens_per_block: NDArray[np.int32] | None
    unique_blocks: int
    source: str = ""

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.offsets) - 1

    @property
    def accesses(self) -> int:
        """Number of block accesses."""
        return len(self.block_ids)
