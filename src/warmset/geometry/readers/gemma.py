"""Gemma 3n and 4: later layers share the cache of earlier ones, and full layers may have other heads."""

from warmset.geometry.config import Config
from warmset.geometry.readers.parts import Heads, Parts, every, layer_count, layer_types, read_heads
from warmset.geometry.readers.windowed import FULL, KNOWN, SLIDING


def read(config: Config) -> Parts:
    """Only the layers before the last `num_kv_shared_layers` own a cache."""
    layers, heads = layer_count(config), read_heads(config)
    own = layers - config.integer("num_kv_shared_layers", default=0, kind="layers", low=0)
    kinds = _kinds(config, layers)
    window = config.integer("sliding_window", kind="tokens")
    wide = _full_heads(config, heads) if config.model_type.startswith("gemma4") else heads
    caches = tuple(
        heads.window(layer, window) if kinds[layer] == SLIDING else wide.full(layer)
        for layer in range(max(own, 0))
    )
    shared = layers - len(caches)
    notes = (
        (
            f"{shared} of {layers} layers {'reuses' if shared == 1 else 'reuse'} the cache of earlier layers "
            "(`num_kv_shared_layers`)",
        )
        if shared
        else ()
    )
    return Parts(layers=layers, attention_heads=heads.attention, caches=caches, notes=notes)


def _kinds(config: Config, layers: int) -> tuple[str, ...]:
    kinds = layer_types(config, layers, KNOWN)
    if kinds is None:
        period = 5 if config.model_type.startswith("gemma3n") else 6
        kinds = tuple(FULL if last else SLIDING for last in every(layers, period, "layer_types"))
    if config.model_type.startswith("gemma4"):
        kinds = (*kinds[:-1], FULL)
    return kinds


def _full_heads(config: Config, heads: Heads) -> Heads:
    """Gemma 4's full layers: `global_head_dim`, and their own KV heads where keys double as values."""
    dim = config.integer("global_head_dim", default=512)
    kv = heads.kv
    if config.flag("attention_k_eq_v"):
        kv = config.integer("num_global_key_value_heads", default=heads.kv, kind="heads")
    return Heads(heads.attention, kv, dim, dim)
