"""What a reader returns, and the readings that all families share."""

from dataclasses import dataclass, field

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.full import FullAttention
from warmset.geometry.window import SlidingWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The caches of a model and the facts that its family's reader knows."""

    layers: int
    caches: tuple[Cache, ...]
    attention_heads: int | None = None
    draft_caches: tuple[Cache, ...] = ()
    draft_layers: int = 0
    block_outermost: bool = False
    retains_lookahead: bool = False
    state_dtype: str = "auto"
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Heads:
    """Head counts and sizes of ordinary attention layers."""

    attention: int
    kv: int
    dim: int
    value_dim: int

    def full(self, layer: int) -> FullAttention:
        """A layer of full attention."""
        return FullAttention(layer, self.kv, self.dim, self.value_dim)

    def window(self, layer: int, tokens: int) -> SlidingWindow:
        """A layer with a sliding window."""
        return SlidingWindow(layer, self.kv, self.dim, self.value_dim, tokens)

    def windowed(self, layer: int, tokens: int | None) -> FullAttention | SlidingWindow:
        """A layer with a window of `tokens`, or full attention for None."""
        return self.full(layer) if tokens is None else self.window(layer, tokens)


LAYER_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim")
KV_KEYS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")


def layer_count(config: Config) -> int:
    """Decoder layers."""
    return config.integer(*LAYER_KEYS, kind="layers")


def read_heads(config: Config) -> Heads:
    """Heads in any of the field's spellings; KV heads default to the attention heads (MHA)."""
    attention = config.integer(*HEAD_KEYS, kind="heads")
    kv = config.maybe_integer(*KV_KEYS, kind="heads") or attention
    if attention % kv:
        raise InputError(
            f"`num_attention_heads` {attention} is not a multiple of the KV heads {kv} (`num_key_value_heads`)",
            hint="check the config.json",
        )
    return Heads(attention, kv, *(2 * (head_dim(config, attention),)))


def head_dim(config: Config, attention_heads: int) -> int:
    """`head_dim`, else the hidden size over the attention heads."""
    explicit = config.raw("head_dim")
    if explicit is not None and explicit != 0:
        return config.integer("head_dim")
    per_head = config.maybe_integer("hidden_size_per_head", "kv_channels", "attention_head_dim")
    if per_head is not None:
        return per_head
    width = config.integer(*WIDTH_KEYS)
    if width < attention_heads:
        raise InputError(
            f"`hidden_size` {width} is less than one element per head (`num_attention_heads` {attention_heads})",
            hint="check the config.json",
        )
    return width // attention_heads


def model_window(config: Config) -> int | None:
    """The window that every layer has, or None.

    A `sliding_window` counts for all layers unless `layer_types` says otherwise or `use_sliding_window` is
    off; 0 means none.
    """
    window = config.maybe_integer("sliding_window", kind="tokens", low=0)
    if not window or config.raw("use_sliding_window") is False:
        return None
    return window
