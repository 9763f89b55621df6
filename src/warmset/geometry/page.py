"""A page: what one block of one layer's cache holds on one rank, as the server lays it out.

Names follow vLLM's `KVCacheSpec` classes, whose equality and merge rules decide how layers are grouped
(`v1/kv_cache_interface.py`, vLLM 0.32). All sizes are bytes on one rank.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Self

Kind = Literal["full", "latent", "window", "window_latent", "chunk", "state", "cross"]

ELEMENT_BYTES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
}


@dataclass(frozen=True, slots=True)
class KernelBlocks:
    """A stride alignment of whole kernel blocks of up to `tokens` tokens."""

    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One layer's block. Two layers whose pages are equal may share a block table."""

    kind: Kind
    block_tokens: int
    heads: int = 1
    head_dim: int = 0
    value_head_dim: int = 0
    element: str = "bfloat16"
    quantized: str = ""
    head_slots: int | None = None
    packed_bytes: int | None = None
    tokens_per_entry: int = 1
    padded_bytes: int | None = None
    window_tokens: int | None = None
    chunk_tokens: int | None = None
    retained_tokens: int = 0
    stride_alignment: int | KernelBlocks | None = None
    dcp_sharded: bool = True
    max_tp_shards: int | None = None
    indexer: bool = False
    index_group_leader: bool = False
    encoder_tokens: int = 0
    shapes: tuple[tuple[int, ...], ...] = ()
    elements: tuple[str, ...] = ()
    state_kind: str = ""
    copies: int = 1
    checkpoint_copies: int = 0

    @property
    def entry_bytes(self) -> int:
        """Bytes of one entry of one head slot: a key and a value, or a packed form of both."""
        if self.packed_bytes is not None:
            return self.packed_bytes
        return (self.head_dim + self.value_head_dim) * ELEMENT_BYTES[self.element]

    @property
    def unpadded_bytes(self) -> int:
        """Bytes of the block before padding."""
        if self.kind == "state":
            return sum(
                math.prod(shape) * ELEMENT_BYTES[element]
                for shape, element in zip(self.shapes, self.elements, strict=True)
            )
        slots = self.heads if self.head_slots is None else self.head_slots
        return slots * (self.block_tokens // self.tokens_per_entry) * self.entry_bytes

    @property
    def bytes(self) -> int:
        """Bytes of the block as allocated."""
        return self.unpadded_bytes if self.padded_bytes is None else self.padded_bytes

    @property
    def stride_bytes(self) -> int:
        """Bytes from one block to the next where each layer has its own region."""
        return -(-self.bytes // self.alignment_bytes) * self.alignment_bytes

    @property
    def alignment_bytes(self) -> int:
        """What the stride between blocks must be a multiple of."""
        if not isinstance(self.stride_alignment, KernelBlocks):
            return self.stride_alignment or 1
        kernel_block = math.gcd(self.stride_alignment.tokens, self.block_tokens)
        return 1 if kernel_block == self.block_tokens else self.with_block_tokens(kernel_block).bytes

    @property
    def bytes_per_token(self) -> Fraction:
        """Unpadded bytes per token that the block covers."""
        return Fraction(self.unpadded_bytes, self.block_tokens)

    def with_block_tokens(self, block_tokens: int) -> Self:
        """The same layer with another block size; padding to an alignment is worked out anew by callers."""
        return replace(self, block_tokens=block_tokens)

    @property
    def is_full(self) -> bool:
        """Whether the layer keeps every token (latent caches included)."""
        return self.kind in ("full", "latent")

    @property
    def is_window(self) -> bool:
        """Whether the layer keeps a sliding window."""
        return self.kind in ("window", "window_latent")
