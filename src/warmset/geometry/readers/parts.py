"""What a reader returns, and the readings that all families share."""

from dataclasses import dataclass, field
from typing import Any

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.full import FullAttention
from warmset.geometry.window import SlidingWindow
from warmset.units import format_counted

LAYER_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
WIDTH_KEYS = ("hidden_size", "n_embd", "d_model", "dim")
KV_KEYS = (
    "n_head_kv",
    "num_kv_heads",
    "num_key_value_heads",
    "multi_query_group_num",
    "num_attention_groups",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The caches of a model and the facts that its family's reader knows.

    `draft_caches` are the model's own speculative layers; `draft_modules` how many modules they form.
    `layers` counts decoder layers, which pipeline parallelism splits.
    """

    layers: int
    caches: tuple[Cache, ...]
    attention_heads: int | None = None
    draft_caches: tuple[Cache, ...] = ()
    draft_modules: int = 0
    block_outermost: bool = False
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


def layer_count(config: Config) -> int:
    """Decoder layers."""
    return config.integer(*LAYER_KEYS, kind="layers")


def attention_heads(config: Config) -> int:
    """Query heads."""
    return config.integer(*HEAD_KEYS, kind="heads")


def read_heads(config: Config, *, kv: int | None = None) -> Heads:
    """Heads in any of the field's spellings; KV heads default to the attention heads (MHA)."""
    attention = attention_heads(config)
    kv_heads = kv or config.maybe_integer(*KV_KEYS, kind="heads") or attention
    check_groups(attention, kv_heads)
    dim = head_dim(config, attention)
    return Heads(attention, kv_heads, dim, dim)


def check_groups(attention: int, kv_heads: int) -> None:
    """Query heads must form equal groups around the KV heads."""
    if attention % kv_heads:
        raise InputError(
            f"`num_attention_heads` {attention} is not a multiple of the KV heads {kv_heads} (`num_key_value_heads`)",
            hint="check the config.json",
        )


def head_dim(config: Config, attention: int) -> int:
    """`head_dim`, else the hidden size over the attention heads."""
    explicit = config.raw("head_dim")
    if explicit is not None and explicit != 0:
        return config.integer("head_dim")
    per_head = config.maybe_integer("hidden_size_per_head", "kv_channels", "attention_head_dim")
    if per_head is not None:
        return per_head
    width = config.integer(*WIDTH_KEYS)
    if width < attention:
        raise InputError(
            f"`hidden_size` {width} is less than one element per head (`num_attention_heads` {attention})",
            hint="check the config.json",
        )
    return width // attention


def window_tokens(config: Config) -> int | None:
    """`sliding_window`, or None where it is absent, 0 or switched off by `use_sliding_window`."""
    if config.raw("use_sliding_window") is False:
        return None
    return config.maybe_integer("sliding_window", kind="tokens", low=0) or None


def layer_types(
    config: Config, layers: int, known: tuple[str, ...], key: str = "layer_types"
) -> tuple[str, ...] | None:
    """One type per layer, or None if the configuration has no such list. It may be longer than the model.

    Raises InputError for a list that is too short, or for a type that is not among `known`.
    """
    types = config.strings(key)
    if types is None:
        return None
    if len(types) < layers:
        raise InputError(
            f"`{key}` names {format_counted(len(types), 'layer')}, but the model has {layers} (`num_hidden_layers`)",
            hint="check the config.json",
        )
    for layer, name in enumerate(types[:layers]):
        if name not in known:
            raise InputError(
                f"`{key}` calls layer {layer} `{name:.60}`, which warmset does not know for `{config.model_type}`",
                hint="known: " + ", ".join(known) + "; explicit numbers: --layers, --kv-heads, --head-dim",
            )
    return types[:layers]


def every(layers: int, period: int, key: str) -> tuple[bool, ...]:
    """Whether each layer is the last of its period."""
    if period < 1:
        raise InputError(f"`{key}` is {period}, not a period", hint="check the config.json")
    return tuple((layer + 1) % period == 0 for layer in range(layers))


def unknown(config: Config, key: str, value: Any = None) -> InputError:
    """The refusal to guess: names the key (and its value) that warmset cannot interpret."""
    shown = "" if value is None else f" = `{value!r:.60}`"
    return InputError(
        f"`{key}`{shown} shapes the KV cache of `{config.model_type or config.architecture or 'this model'}` in a way "
        "that warmset does not know",
        hint="give explicit numbers: --layers, --kv-heads and --head-dim",
    )
