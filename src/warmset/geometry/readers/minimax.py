"""MiniMax M3 (block-sparse layers with index keys) and the older MiniMax models (lightning attention)."""

from collections.abc import Iterable
from dataclasses import replace

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.kernels import MINIMAX_SPARSE
from warmset.geometry.latent import KeyIndexer
from warmset.geometry.readers.drafts import draft_count
from warmset.geometry.readers.parts import Heads, Parts, layer_count, read_heads
from warmset.geometry.state import State


def read_sparse(config: Config) -> Parts:
    """MiniMax-M3: sparse layers keep index keys beside keys and values; MTP modules are sparse layers."""
    layers, heads, drafts = layer_count(config), read_heads(config), draft_count(config)
    inner = config.section("sparse_attention_config")
    sparse = inner.integers("sparse_attention_freq")
    if sparse is None or len(sparse) < layers:
        raise InputError(
            "`sparse_attention_config.sparse_attention_freq` does not name every layer",
            hint="check the config.json",
        )
    width = inner.integer("sparse_index_dim")

    def caches(layer: int, is_sparse: bool) -> Iterable[Cache]:
        if is_sparse:
            yield KeyIndexer(layer, width, MINIMAX_SPARSE)
            yield replace(heads.full(layer), own_kernel=MINIMAX_SPARSE)
        else:
            yield heads.full(layer)

    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(cache for layer in range(layers) for cache in caches(layer, bool(sparse[layer]))),
        draft_caches=tuple(cache for i in range(drafts) for cache in caches(layers + i, True)),
        draft_modules=drafts,
    )


def read_lightning(config: Config) -> Parts:
    """MiniMax-Text-01 and M1: `attn_type_list` holds 1 for softmax attention, 0 for lightning attention."""
    layers, heads = layer_count(config), read_heads(config)
    kinds = config.integers("attn_type_list")
    if kinds is None or len(kinds) < layers:
        raise InputError("`attn_type_list` does not name every layer", hint="check the config.json")
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(
            heads.full(layer) if kinds[layer] else linear_state(heads, layer) for layer in range(layers)
        ),
        notes=("vLLM dropped this model after 0.23",),
    )


def linear_state(heads: Heads, layer: int) -> State:
    """One head_dim × head_dim matrix per head."""
    return State(layer=layer, scan="linear", recurrent=(heads.attention, heads.dim, heads.dim))
