"""Models with latent attention (MLA), with or without a lightning indexer."""

from collections.abc import Iterable

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.latent import Indexer, Latent
from warmset.geometry.readers.drafts import draft_count
from warmset.geometry.readers.parts import Parts, attention_heads, layer_count


def read(config: Config) -> Parts:
    """DeepSeek V2, V3, R1 and V3.2, Kimi K2, GLM-4.7-Flash, GLM-5, openPangu Ultra."""
    layers, drafts = layer_count(config), draft_count(config)
    return Parts(
        layers=layers,
        attention_heads=attention_heads(config),
        caches=tuple(_layers(config, range(layers), layers)),
        draft_caches=tuple(_layers(config, range(layers, layers + drafts), layers)),
        draft_modules=drafts,
    )


def read_doubled(config: Config) -> Parts:
    """LongCat-Flash: two attention blocks, hence two latents, in each layer; its MTP layer has one."""
    layers, width = config.integer("num_layers", "num_hidden_layers", kind="layers"), latent_width(config)
    drafts = min(draft_count(config), 1)
    return Parts(
        layers=layers,
        attention_heads=attention_heads(config),
        caches=tuple(Latent(layer, width) for layer in range(layers) for _ in range(2)),
        draft_caches=tuple(Latent(layers + index, width) for index in range(drafts)),
        draft_modules=drafts,
    )


def latent_width(config: Config) -> int:
    """Elements that one token of one layer stores: the latent and the shared rotary key."""
    return config.integer("kv_lora_rank") + config.integer("qk_rope_head_dim", default=0, low=0)


def _layers(config: Config, numbers: Iterable[int], own_layers: int) -> Iterable[Cache]:
    width = latent_width(config)
    sparse = config.raw("index_topk") is not None
    for layer in numbers:
        leads = sparse and (layer >= own_layers or _leads(config, layer))
        if leads:
            yield Indexer(layer, config.integer("index_head_dim"))
        yield Latent(layer, width, sparse, leads)


def _leads(config: Config, layer: int) -> bool:
    """Whether a sparse layer runs an indexer of its own; the others reuse the last leader's choice."""
    pattern = config.raw("index_topk_pattern")
    if pattern is None:
        period = config.integer("index_topk_freq", default=1, kind="layers")
        offset = config.integer("index_skip_topk_offset", default=2, kind="layers", low=0)
        return max(layer - offset + 1, 0) % period == 0
    if not isinstance(pattern, (str, list)):
        raise InputError(
            f"`index_topk_pattern` is `{pattern!r:.60}`, not a pattern", hint="check the config.json"
        )
    return not (layer < len(pattern) and pattern[layer] == "S")
