"""Models with latent attention (MLA), with or without a lightning indexer."""

from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.latent import Indexer, Latent
from warmset.geometry.readers.parts import Parts, layer_count


def read(config: Config) -> Parts:
    """DeepSeek V2, V3, R1, V3.2, Kimi K2, GLM-4.7-Flash, GLM-5."""
    layers = layer_count(config)
    width = config.integer("kv_lora_rank") + config.integer("qk_rope_head_dim", default=0, low=0)
    drafts = config.maybe_integer("num_nextn_predict_layers", kind="layers", low=0) or 0
    sparse = config.raw("index_topk") is not None
    caches: list[Cache] = []
    for layer in range(layers):
        leads = sparse
        if leads:
            caches.append(Indexer(layer, config.integer("index_head_dim")))
        caches.append(Latent(layer, width, sparse, leads))
    return Parts(layers=layers, caches=tuple(caches), attention_heads=config.integer("num_attention_heads", kind="heads"), draft_layers=drafts)
