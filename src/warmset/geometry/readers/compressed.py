"""DeepSeek V4: a window over latents on every layer, and latents compressed by 4 or 128 on most."""

from collections.abc import Iterable

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.compressed import CompressedIndexer, CompressedLatent, CompressorState, LatentWindow
from warmset.geometry.config import Config
from warmset.geometry.readers.drafts import draft_count
from warmset.geometry.readers.parts import Parts, attention_heads, layer_count

RATIOS = (0, 1, 4, 128)


def read(config: Config) -> Parts:
    """`compress_ratios` names each layer's ratio; MTP layers have a window only."""
    layers, drafts = layer_count(config), draft_count(config)
    ratios = config.integers("compress_ratios")
    if ratios is None or len(ratios) < layers:
        raise InputError("`compress_ratios` does not name every layer", hint="check the config.json")
    for layer, ratio in enumerate(ratios[:layers]):
        if ratio not in RATIOS:
            raise InputError(
                f"`compress_ratios` gives layer {layer} the ratio {ratio}, which vLLM does not know",
                hint="known: 1, 4, 128",
            )
    return Parts(
        layers=layers,
        attention_heads=attention_heads(config),
        caches=tuple(c for layer in range(layers) for c in _layer(config, layer, max(ratios[layer], 1))),
        draft_caches=tuple(c for i in range(drafts) for c in _layer(config, layers + i, 1)),
        draft_modules=drafts,
        block_outermost=True,
    )


def _layer(config: Config, layer: int, ratio: int) -> Iterable[Cache]:
    width, window = config.integer("head_dim"), config.integer("sliding_window", kind="tokens")
    if ratio == 4:
        index_width = config.integer("index_head_dim")
        yield CompressedIndexer(layer, index_width, ratio)
        yield CompressorState(layer, index_width, ratio)
    yield LatentWindow(layer, width, window)
    if ratio > 1:
        yield CompressedLatent(layer, width, ratio)
        yield CompressorState(layer, width, ratio)
