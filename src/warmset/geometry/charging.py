"""What one cache charges for a session: bytes that it holds, and blocks that the server takes for it.

Block counts follow vLLM 0.32 (`max_memory_usage_bytes` and `max_admission_blocks_per_request` of each
`KVCacheSpec`); a decoding session holds less than the server reserves for it, because windows move on.
"""

from dataclasses import dataclass
from fractions import Fraction

from warmset.geometry.page import Page


@dataclass(frozen=True, slots=True)
class Flight:
    """Tokens scheduled and not yet settled: up to `batched_tokens` in each of `batches`."""

    batched_tokens: int
    batches: int

    @property
    def tokens(self) -> int:
        """All tokens in flight."""
        return self.batched_tokens * self.batches


def session_bytes(page: Page, context_tokens: int, dcp: int) -> Fraction:
    """Unrounded bytes of one cache on one rank at `context_tokens`; one copy of a state."""
    if page.kind == "state":
        return Fraction(page.unpadded_bytes)
    if page.kind == "cross":
        return page.bytes_per_token * page.encoder_tokens
    if page.is_full:
        return page.bytes_per_token * context_tokens / dcp_share(page, dcp)
    return page.bytes_per_token * min(context_tokens, _bound(page))


def full_bounded_bytes(page: Page) -> int:
    """Bytes of a window, chunk or encoder cache when full; 0 for the others."""
    if page.is_full or page.kind == "state":
        return 0
    tokens = page.encoder_tokens if page.kind == "cross" else _bound(page)
    return int(page.bytes_per_token * tokens)


def steady_blocks(page: Page, context_tokens: int, dcp: int) -> int:
    """Blocks of one table that a decoding session of `context_tokens` holds."""
    needed = -(-context_tokens // (page.block_tokens * dcp_share(page, dcp)))
    if page.is_full:
        return needed
    if page.kind == "state":
        return page.copies
    if page.kind == "cross":
        return -(-page.encoder_tokens // page.block_tokens)
    bound = -(-(_bound(page) + page.retained_tokens) // page.block_tokens)
    return min(needed, bound + 1 if page.is_window else bound)


def request_blocks(page: Page, max_context_tokens: int, flight: Flight, dcp: int) -> int:
    """Blocks of one table that the server reserves for a request of `max_context_tokens`."""
    if page.is_full:
        return steady_blocks(page, max_context_tokens, dcp)
    if page.kind == "cross":
        return -(-flight.batched_tokens // page.block_tokens)
    if page.is_window:
        reach = _bound(page) - 1 + page.retained_tokens + flight.tokens
        return -(-min(reach, max_context_tokens) // page.block_tokens) + 1
    if page.kind == "chunk":
        return -(-min(_bound(page) + flight.tokens, max_context_tokens) // page.block_tokens)
    return steady_blocks(page, max_context_tokens, dcp)


def dcp_share(page: Page, dcp: int) -> int:
    """Over how many ranks decode context parallelism spreads the tokens of this cache."""
    return dcp if page.dcp_sharded and page.kind in ("full", "latent") else 1


def _bound(page: Page) -> int:
    bound = page.window_tokens if page.is_window else page.chunk_tokens
    assert bound is not None
    return bound
