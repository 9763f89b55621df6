"""Encoder-decoder models, and models with layers that attend to images."""

from collections.abc import Iterable

from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.full import CrossAttention, FullAttention
from warmset.geometry.readers.parts import Parts, layer_count, read_heads


def read_whisper(config: Config) -> Parts:
    """Whisper: each decoder layer caches its own tokens and the encoder's output."""
    layers = config.integer("decoder_layers", kind="layers")
    heads = config.integer("decoder_attention_heads", kind="heads")
    dim = config.integer("d_model") // heads
    encoder = config.integer("max_source_positions", default=1500, kind="tokens")

    def caches(layer: int) -> Iterable[Cache]:
        yield FullAttention(layer, heads, dim, dim)
        yield CrossAttention(layer, heads, dim, dim, encoder)

    return Parts(
        layers=layers,
        attention_heads=heads,
        caches=tuple(cache for layer in range(layers) for cache in caches(layer)),
    )


def read_mllama(config: Config) -> Parts:
    """Llama 3.2 Vision: `cross_attention_layers` attend to the image and keep no text tokens."""
    layers, heads = layer_count(config), read_heads(config)
    cross = set(config.integers("cross_attention_layers") or ())
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.full(layer) for layer in range(layers) if layer not in cross),
        notes=(
            f"{len(cross)} of {layers} layers cache the image only (`cross_attention_layers`); they are not counted",
            "vLLM dropped this model after 0.10.2",
        ),
    )
