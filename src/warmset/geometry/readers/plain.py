"""Models whose layers are all alike: full attention, or one sliding window for all."""

from warmset.geometry.config import Config
from warmset.geometry.readers.parts import Parts, layer_count, model_window, read_heads


def read(config: Config) -> Parts:
    """Llama, Qwen, Mistral, Phi and their many relatives."""
    layers, heads = layer_count(config), read_heads(config)
    window = model_window(config)
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.windowed(layer, window) for layer in range(layers)),
    )
