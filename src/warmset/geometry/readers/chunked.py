"""Llama 4: local chunks on the layers with rotary positions, full attention on those without."""

from warmset.geometry.config import Config
from warmset.geometry.readers.parts import Parts, every, layer_count, read_heads
from warmset.geometry.window import ChunkedLocal


def read(config: Config) -> Parts:
    """`no_rope_layers` holds a 0 for each layer without rotary positions; by default every fourth."""
    layers, heads = layer_count(config), read_heads(config)
    rotary = config.integers("no_rope_layers") or tuple(
        int(not last)
        for last in every(
            layers,
            config.integer("no_rope_layer_interval", default=4, kind="layers"),
            "no_rope_layer_interval",
        )
    )
    chunk = config.maybe_integer("attention_chunk_size", kind="tokens", low=0)
    if len(rotary) < layers:
        rotary = (*rotary, *(1,) * (layers - len(rotary)))
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(
            ChunkedLocal(layer, heads.kv, heads.dim, heads.value_dim, chunk)
            if rotary[layer] and chunk
            else heads.full(layer)
            for layer in range(layers)
        ),
    )
