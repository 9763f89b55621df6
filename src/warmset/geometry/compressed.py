"""The caches of DeepSeek V4, whose pages lie side by side in one block (vLLM 0.32 `models/deepseek_v4`)."""

from dataclasses import dataclass, replace

from warmset.geometry.deployment import Deployment
from warmset.geometry.kernels import (
    DEEPSEEK_V4,
    DEEPSEEK_V4_STATE,
    DEEPSEEK_V4_WINDOW,
    Kernel,
    split_alignment,
)
from warmset.geometry.page import Page

# 448 fp8 elements, a 16-bit rotary part of 64 and 8 scales make one packed entry of a 512-wide latent.
PACKED_ENTRY_BYTES = 584
PAGE_ALIGNMENT_BYTES = 576


def aligned(page: Page) -> Page:
    """The page padded to the alignment of the packed layout."""
    padded = -(-page.unpadded_bytes // PAGE_ALIGNMENT_BYTES) * PAGE_ALIGNMENT_BYTES
    return replace(page, padded_bytes=padded) if padded != page.unpadded_bytes else page


@dataclass(frozen=True, slots=True)
class LatentWindow:
    """The last `window_tokens` latents, uncompressed, in blocks of 64 tokens."""

    layer: int
    width: int
    window_tokens: int

    kv_heads = None
    block_tokens = 64

    def kernel(self, deployment: Deployment) -> Kernel:
        """The window's kernel."""
        return DEEPSEEK_V4_WINDOW

    def page(self, deployment: Deployment) -> Page:
        """The block on every rank."""
        return aligned(
            Page(
                kind="window_latent",
                block_tokens=self.block_tokens,
                head_dim=self.width,
                element="uint8",
                quantized="fp8",
                packed_bytes=PACKED_ENTRY_BYTES,
                window_tokens=self.window_tokens,
                retained_tokens=deployment.retained_tokens,
                max_tp_shards=1,
            )
        )

    def formula(self, deployment: Deployment) -> str:
        """Bytes per token within the window."""
        return f"{PACKED_ENTRY_BYTES} B (packed latent)"


@dataclass(frozen=True, slots=True)
class CompressedLatent:
    """One packed latent for every `ratio` tokens."""

    layer: int
    width: int
    ratio: int

    kv_heads = None

    def kernel(self, deployment: Deployment) -> Kernel:
        """The sparse latent kernel."""
        return DEEPSEEK_V4

    def page(self, deployment: Deployment) -> Page:
        """The block on every rank."""
        return aligned(
            Page(
                kind="latent",
                block_tokens=deployment.block_tokens,
                head_dim=self.width,
                element="uint8",
                quantized="fp8",
                packed_bytes=PACKED_ENTRY_BYTES,
                tokens_per_entry=self.ratio,
                stride_alignment=split_alignment(DEEPSEEK_V4),
                max_tp_shards=1,
            )
        )

    def formula(self, deployment: Deployment) -> str:
        """Bytes per token."""
        return f"{PACKED_ENTRY_BYTES} B (packed latent) ÷ {self.ratio}"


@dataclass(frozen=True, slots=True)
class CompressedIndexer:
    """Index keys, one for every `ratio` tokens: fp8 with one fp32 scale per 128."""

    layer: int
    width: int
    ratio: int

    kv_heads = None

    def kernel(self, deployment: Deployment) -> Kernel:
        """The indexer's kernel."""
        return DEEPSEEK_V4

    def page(self, deployment: Deployment) -> Page:
        """The block on every rank."""
        return aligned(
            Page(
                kind="latent",
                block_tokens=deployment.block_tokens,
                head_dim=self.entry_bytes,
                element="uint8",
                tokens_per_entry=self.ratio,
                stride_alignment=split_alignment(DEEPSEEK_V4),
                max_tp_shards=1,
                indexer=True,
            )
        )

    @property
    def entry_bytes(self) -> int:
        """fp8 elements and their scales."""
        return self.width + 4 * (self.width // 128)

    def formula(self, deployment: Deployment) -> str:
        """Bytes per token."""
        return f"({self.width} × 1 B + {self.width // 128} × 4 B scale) ÷ {self.ratio}"


@dataclass(frozen=True, slots=True)
class CompressorState:
    """What the compressor of a layer still needs: fp32 values and scores of the last tokens.

    Overlapping windows (ratio 4) keep twice as many tokens, and twice as many values of each.
    """

    layer: int
    width: int
    ratio: int

    kv_heads = None

    def kernel(self, deployment: Deployment) -> Kernel:
        """The compressor has no block size of its own."""
        return DEEPSEEK_V4_STATE

    @property
    def overlap(self) -> int:
        """2 where windows overlap."""
        return 2 if self.ratio == 4 else 1

    def page(self, deployment: Deployment) -> Page:
        """The block on every rank."""
        return aligned(
            Page(
                kind="window_latent",
                block_tokens=4 if self.ratio == 4 else 8,
                head_dim=2 * self.overlap * self.width,
                element="float32",
                window_tokens=self.overlap * self.ratio,
                retained_tokens=deployment.retained_tokens,
                max_tp_shards=1,
            )
        )

    def formula(self, deployment: Deployment) -> str:
        """Bytes per token within the window."""
        return f"2 × {self.overlap * self.width} × 4 B (compressor state)"
