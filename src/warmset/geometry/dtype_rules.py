"""Which KV dtype a model really gets, and which it cannot take.

Rules of vLLM 0.32: `resolve_kv_cache_dtype_string`, the backends' `supported_kv_cache_dtypes`, and the
model-specific overrides in `model_executor/models/config.py` and the attention layers.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from warmset.errors import InputError
from warmset.geometry.full import FullAttention
from warmset.geometry.heads import HeadCache
from warmset.geometry.kv_dtype import (
    BOUNDARY_SKIPPING,
    FP8,
    NVFP4,
    PACKED_LATENT_BYTES,
    PER_TOKEN_HEAD,
    PLAIN,
    parse_kv_dtype,
)
from warmset.geometry.latent import Latent
from warmset.geometry.state import State

if TYPE_CHECKING:
    from warmset.geometry.geometry import Geometry

_BOUNDARY_LAYERS = 2


@dataclass(frozen=True, slots=True)
class Resolved:
    """The KV dtype in use, and what is worth saying about it."""

    kv_dtype: str
    notes: tuple[str, ...] = ()


def resolve_kv_dtype(geometry: "Geometry", asked: str, platform: str) -> Resolved:
    """The KV dtype that the server uses when asked for `asked`; InputError if the model cannot take it."""
    kv_dtype = parse_kv_dtype(asked)
    notes: list[str] = []
    if kv_dtype == "auto" and geometry.declared_kv_dtype != "auto":
        kv_dtype = geometry.declared_kv_dtype
        notes.append(f"the checkpoint declares a KV cache of `{kv_dtype}`; `--kv-dtype auto` follows it")
    latents = [cache for cache in geometry.caches if isinstance(cache, Latent)]
    sparse = any(latent.sparse for latent in latents)
    if geometry.block_outermost:
        _refuse_unless(kv_dtype, ("auto", "fp8", "fp8_ds_mla"), "the model's compressed latent cache")
        kv_dtype = "fp8_ds_mla"
    elif sparse:
        allowed = ("auto", "bfloat16", "fp8", "fp8_e4m3", *PACKED_LATENT_BYTES)
        _refuse_unless(kv_dtype, allowed, "sparse latent attention (MLA with an indexer)")
        if kv_dtype == "bfloat16" and geometry.architecture == "DeepseekV32ForCausalLM":
            kv_dtype = "auto"
        if kv_dtype.startswith("fp8"):
            kv_dtype = "fp8_ds_mla"
    elif latents:
        _refuse_unless(kv_dtype, (*PLAIN, "fp8", "fp8_e4m3", "fp8_ds_mla"), "latent attention (MLA)")
    else:
        _check_heads(geometry, kv_dtype)
    if platform == "cpu":
        _refuse_unless(kv_dtype, (*PLAIN, "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla"), "vLLM's CPU build")
    if kv_dtype == "fp8_inc":
        notes.append("`fp8_inc` is Intel Gaudi's fp8: the bytes are those of fp8")
    if kv_dtype == "ultraquant_4bit":
        notes.append("`ultraquant_4bit` runs on AMD GPUs only")
    return Resolved(kv_dtype, tuple(notes))


def _check_heads(geometry: "Geometry", kv_dtype: str) -> None:
    """Packed formats need keys and values of one size and the server's own kernels."""
    heads = [cache for cache in geometry.caches if isinstance(cache, HeadCache)]
    if any(cache.head_dim != cache.value_head_dim for cache in heads):
        _refuse_unless(kv_dtype, (*PLAIN, "fp8", "fp8_e4m3"), "keys and values of different sizes")
    if any(isinstance(cache, FullAttention) and cache.own_kernel is not None for cache in heads):
        _refuse_unless(kv_dtype, (*PLAIN, *FP8, "nvfp4"), "the model's own block-sparse kernels")
    allowed = (*PLAIN, *FP8, *NVFP4, *PER_TOKEN_HEAD, *BOUNDARY_SKIPPING)
    _refuse_unless(kv_dtype, allowed, "attention with keys and values per head")


def skipped_layers(geometry: "Geometry", kv_dtype: str) -> frozenset[int]:
    """Layers that stay in the model's own type: the first and last two, in dense models only."""
    if kv_dtype not in BOUNDARY_SKIPPING or any(isinstance(cache, State) for cache in geometry.caches):
        return frozenset()
    edge = min(_BOUNDARY_LAYERS, geometry.layers // 2)
    return frozenset((*range(edge), *range(geometry.layers - edge, geometry.layers)))


def _refuse_unless(kv_dtype: str, allowed: tuple[str, ...], what: str) -> None:
    if kv_dtype not in allowed:
        raise InputError(
            f"KV dtype `{kv_dtype}` does not work with {what}", hint="use one of: " + ", ".join(allowed)
        )
