"""What all caches of keys and values per head share."""

from dataclasses import dataclass

from warmset.geometry.deployment import Deployment, heads_per_rank
from warmset.geometry.kernels import Kernel, attention_kernel, split_alignment
from warmset.geometry.kv_dtype import HeadFormat, head_format, quantized
from warmset.geometry.page import ELEMENT_BYTES, Kind, Page


@dataclass(frozen=True, slots=True)
class HeadCache:
    """A key of `head_dim` and a value of `value_head_dim` elements per KV head and token."""

    layer: int
    kv_heads: int
    head_dim: int
    value_head_dim: int

    def kernel(self, deployment: Deployment) -> Kernel:
        """The attention backend that reads this layer."""
        return attention_kernel(deployment.kv_dtype_of(self.layer), deployment.platform)

    def format(self, deployment: Deployment) -> HeadFormat:
        """How one head of one token is stored."""
        kv_dtype = deployment.kv_dtype_of(self.layer)
        return head_format(kv_dtype, deployment.model_dtype, self.head_dim, self.value_head_dim)

    def formula(self, deployment: Deployment) -> str:
        """Bytes per token on one rank, such as `8 KV heads × 2 × 128 × 2 B`."""
        form, heads = self.format(deployment), heads_per_rank(self.kv_heads, deployment.tp)
        return f"{heads} KV head{'s' * (heads != 1)} × {_entry(form, self.head_dim, self.value_head_dim)}"

    def head_page(self, kind: Kind, deployment: Deployment, block_tokens: int) -> Page:
        """The block on one rank: KV heads are split over TP ranks, or replicated when there are fewer."""
        form, heads = self.format(deployment), heads_per_rank(self.kv_heads, deployment.tp)
        return Page(
            kind=kind,
            block_tokens=block_tokens,
            heads=heads,
            head_dim=self.head_dim,
            value_head_dim=self.value_head_dim,
            element=form.element,
            quantized=quantized(deployment.kv_dtype_of(self.layer)),
            head_slots=form.slots_per_head * heads if form.slots_per_head > 1 else None,
            packed_bytes=form.packed_bytes,
            stride_alignment=split_alignment(self.kernel(deployment)),
        )


def _entry(form: HeadFormat, head_dim: int, value_head_dim: int) -> str:
    if form.packed_bytes is not None:
        return f"{form.slots_per_head * form.packed_bytes} B (key, value and scales)"
    size = ELEMENT_BYTES[form.element]
    return (
        f"2 × {head_dim} × {size} B"
        if head_dim == value_head_dim
        else f"({head_dim} + {value_head_dim}) × {size} B"
    )
