"""Attention over a sliding window or a local chunk: grows to a bound and no further."""

from dataclasses import dataclass, replace

from warmset.geometry.deployment import Deployment
from warmset.geometry.heads import HeadCache
from warmset.geometry.page import Page


@dataclass(frozen=True, slots=True)
class SlidingWindow(HeadCache):
    """Keeps the last `window_tokens` tokens."""

    window_tokens: int

    def page(self, deployment: Deployment) -> Page:
        """The block on one rank.

        A window layer chooses the largest kernel block that fits the budget of one block of the
        deployment's size, or the page that unquantized boundary layers share.
        """
        one_token = self.head_page("window", deployment, 1).unpadded_bytes
        budget = deployment.skipped_page_bytes or one_token * deployment.block_tokens
        block_tokens = self.kernel(deployment).largest_within(budget, one_token)
        page = self.head_page("window", deployment, block_tokens)
        return replace(
            page,
            window_tokens=self.window_tokens,
            retained_tokens=deployment.retained_tokens,
            padded_bytes=deployment.skipped_page_bytes,
        )


@dataclass(frozen=True, slots=True)
class ChunkedLocal(HeadCache):
    """Keeps the current chunk of `chunk_tokens` tokens (Llama 4's layers with rotary positions)."""

    chunk_tokens: int

    def page(self, deployment: Deployment) -> Page:
        """The block on one rank."""
        page = self.head_page("chunk", deployment, deployment.block_tokens)
        return replace(page, chunk_tokens=self.chunk_tokens)
