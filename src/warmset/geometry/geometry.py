"""The record of what a model's layers cache, independent of any deployment."""

from dataclasses import dataclass, replace

from warmset.geometry import deploy
from warmset.geometry.cache import Cache
from warmset.geometry.deployment import whole
from warmset.geometry.footprint import Footprint
from warmset.geometry.full import FullAttention
from warmset.geometry.latent import Latent
from warmset.geometry.state import State

MAX_LAYERS = 4096
MAX_HEADS = 65536
MAX_HEAD_DIM = 1 << 16

ELEMENT_BYTES_OF_WEIGHTS = {
    "float32": 4.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp4": 0.5,
    "int4": 0.5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """A model's caches, in the order in which the server registers its layers.

    `draft_caches` are the model's own speculative (MTP) layers, used when speculation is on; they form
    `draft_modules` modules. A model without any cache is an encoder: its footprint is refused.
    `declared_kv_dtype` is what the checkpoint asks for (`auto`: the model's own type).
    `model_dtype` is the type in which the server runs the model; `native_dtype` that of the weights on disk.
    Parameter counts and `max_context_tokens` are None where the configuration does not state them.
    """

    caches: tuple[Cache, ...]
    layers: int
    name: str | None = None
    model_type: str | None = None
    architecture: str | None = None
    attention_heads: int | None = None
    draft_caches: tuple[Cache, ...] = ()
    draft_modules: int = 0
    model_dtype: str = "bfloat16"
    native_dtype: str | None = None
    declared_kv_dtype: str = "auto"
    state_dtype: str = "auto"
    max_context_tokens: int | None = None
    max_context_key: str | None = None
    block_outermost: bool = False
    least_batched_tokens: int = 0
    parameters: int | None = None
    active_parameters: int | None = None
    stored_weight_bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def kv_heads(self) -> tuple[int, ...]:
        """The distinct KV-head counts that tensor parallelism splits."""
        return tuple(
            sorted({c.kv_heads for c in (*self.caches, *self.draft_caches) if c.kv_heads is not None})
        )

    @property
    def has_latent(self) -> bool:
        """Whether any layer caches a latent (MLA)."""
        return any(isinstance(cache, Latent) for cache in self.caches) or self.block_outermost

    @property
    def has_state(self) -> bool:
        """Whether any layer keeps recurrent state."""
        return any(isinstance(cache, State) for cache in self.caches)

    @property
    def weight_bytes(self) -> int | None:
        """Bytes of the weights: as stored where known, else parameters × the native type; None if unknown."""
        if self.stored_weight_bytes is not None:
            return self.stored_weight_bytes
        size = ELEMENT_BYTES_OF_WEIGHTS.get(self.native_dtype or "")
        return None if self.parameters is None or size is None else int(self.parameters * size)

    def footprint(
        self,
        *,
        kv_dtype: str = "auto",
        tp: int = 1,
        pp: int = 1,
        dcp: int = 1,
        block_size: int | None = None,
        platform: str = "cuda",
        speculative_tokens: int = 0,
        prefix_caching: bool = True,
        hybrid_manager: bool = True,
        max_context_tokens: int | None = None,
    ) -> Footprint:
        """The cost in one deployment; see `Footprint`.

        Args:
            kv_dtype: a name that `--kv-cache-dtype` takes, or `fp16`/`bf16`.
            tp: tensor-parallel ranks.
            pp: pipeline-parallel ranks.
            dcp: decode-context-parallel ranks, within the TP group.
            block_size: tokens per block; the server's own choice if None.
            platform: `cuda` or `cpu`.
            speculative_tokens: draft tokens per step; adds the model's own MTP layers and state copies.
            prefix_caching: off saves the copies of recurrent state that prefix caching needs.
            hybrid_manager: off makes window and chunk layers beside full ones grow like full ones.
            max_context_tokens: the server's `--max-model-len`, where it is less than the model's own maximum.

        Raises:
            InputError: for a deployment that the model or the server cannot have.
        """
        return deploy.footprint(
            self,
            kv_dtype=kv_dtype,
            tp=tp,
            pp=pp,
            dcp=dcp,
            block_size=block_size,
            platform=platform,
            speculative_tokens=speculative_tokens,
            prefix_caching=prefix_caching,
            hybrid_manager=hybrid_manager,
            max_context_tokens=max_context_tokens,
        )

    def renamed(self, name: str | None) -> "Geometry":
        """The same geometry under another name."""
        return replace(self, name=name)


def uniform(layers: int, kv_heads: int, head_dim: int) -> Geometry:
    """A model of `layers` equal layers of full attention, from explicit numbers; it has no name.

    Raises InputError for numbers that no model has.
    """
    whole(layers, "`--layers`", high=MAX_LAYERS)
    whole(kv_heads, "`--kv-heads`", high=MAX_HEADS)
    whole(head_dim, "`--head-dim`", high=MAX_HEAD_DIM)
    caches = tuple(FullAttention(layer, kv_heads, head_dim, head_dim) for layer in range(layers))
    return Geometry(caches=caches, layers=layers)
