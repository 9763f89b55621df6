"""Latent attention (MLA): one compressed vector per token instead of keys and values per head.

The latent cannot be split over tensor-parallel ranks: every rank holds a whole copy.
"""

from dataclasses import dataclass

from warmset.geometry.deployment import Deployment
from warmset.geometry.kernels import INDEXER, Kernel, is_plain, latent_kernel, split_alignment
from warmset.geometry.kv_dtype import PACKED_LATENT_BYTES, element_of, quantized
from warmset.geometry.page import ELEMENT_BYTES, KernelBlocks, Page


@dataclass(frozen=True, slots=True)
class Latent:
    """`kv_lora_rank + qk_rope_head_dim` elements per token. `sparse` layers read through an indexer.

    `leads` marks sparse layers that run an indexer of their own; the others reuse a leader's choice.
    """

    layer: int
    width: int
    sparse: bool = False
    leads: bool = False

    kv_heads = None

    def kernel(self, deployment: Deployment) -> Kernel:
        """The attention backend that reads this layer."""
        return latent_kernel(self.kv_dtype(deployment), deployment.platform, sparse=self.sparse)

    def kv_dtype(self, deployment: Deployment) -> str:
        """The KV dtype as stored: sparse layers pack fp8 together with its scales."""
        kv_dtype = deployment.kv_dtype_of(self.layer)
        return "fp8_ds_mla" if self.sparse and kv_dtype.startswith("fp8") else kv_dtype

    def page(self, deployment: Deployment) -> Page:
        """The block on every rank."""
        kv_dtype = self.kv_dtype(deployment)
        element = element_of(kv_dtype, deployment.model_dtype)
        alignment: int | KernelBlocks | None = split_alignment(self.kernel(deployment))
        if self.sparse or kv_dtype in PACKED_LATENT_BYTES:
            row_bytes = self.width * ELEMENT_BYTES[element]
            alignment = row_bytes if is_plain(kv_dtype) else KernelBlocks(64)
        return Page(
            kind="latent",
            block_tokens=deployment.block_tokens,
            head_dim=self.width,
            element=element,
            quantized=quantized(kv_dtype),
            packed_bytes=PACKED_LATENT_BYTES.get(kv_dtype),
            stride_alignment=alignment,
            max_tp_shards=1,
            index_group_leader=self.leads,
        )

    def formula(self, deployment: Deployment) -> str:
        """Bytes per token on every rank."""
        kv_dtype = self.kv_dtype(deployment)
        if kv_dtype in PACKED_LATENT_BYTES:
            return f"{PACKED_LATENT_BYTES[kv_dtype]} B (latent, rotary key and scales)"
        return f"{self.width} × {ELEMENT_BYTES[element_of(kv_dtype, deployment.model_dtype)]} B"


@dataclass(frozen=True, slots=True)
class Indexer:
    """The key cache of a lightning indexer (DeepSeek V3.2, GLM-5): fp8 keys with one fp32 scale per 128."""

    layer: int
    width: int

    kv_heads = None

    def kernel(self, deployment: Deployment) -> Kernel:
        """The indexer's own kernel."""
        return INDEXER

    def page(self, deployment: Deployment) -> Page:
        """The block on every rank, whatever the KV dtype."""
        return Page(
            kind="latent",
            block_tokens=deployment.block_tokens,
            head_dim=self.bytes_per_token,
            element="uint8",
            stride_alignment=split_alignment(INDEXER),
            max_tp_shards=1,
            indexer=True,
        )

    @property
    def bytes_per_token(self) -> int:
        """fp8 elements and their scales."""
        return self.width + 4 * (self.width // 128)

    def formula(self, deployment: Deployment) -> str:
        """Bytes per token on every rank."""
        return f"({self.width} × 1 B + {self.width // 128} × 4 B scale)"


@dataclass(frozen=True, slots=True)
class KeyIndexer:
    """MiniMax-M3's index keys: one 16-bit vector per token, on every rank."""

    layer: int
    width: int
    own_kernel: Kernel

    kv_heads = None

    def kernel(self, deployment: Deployment) -> Kernel:
        """The indexer's own kernel."""
        return self.own_kernel

    def page(self, deployment: Deployment) -> Page:
        """The block on every rank, whatever the KV dtype."""
        return Page(
            kind="latent",
            block_tokens=deployment.block_tokens,
            head_dim=self.width,
            element="bfloat16",
            stride_alignment=split_alignment(self.own_kernel),
            indexer=True,
        )

    def formula(self, deployment: Deployment) -> str:
        """Bytes per token on every rank."""
        return f"{self.width} × 2 B"
