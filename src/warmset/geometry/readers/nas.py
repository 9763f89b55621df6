"""Nemotron NAS (DeciLM): an architecture search chose each layer's attention, or none."""

from collections.abc import Mapping

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.config import Config, check_integer
from warmset.geometry.readers.parts import (
    Heads,
    Parts,
    attention_heads,
    check_groups,
    head_dim,
    layer_count,
    unknown,
)


def read(config: Config) -> Parts:
    """`block_configs[i].attention`: `no_op` layers cache nothing, others state their query heads per KV head."""
    layers, attention = layer_count(config), attention_heads(config)
    blocks = config.raw("block_configs")
    if not isinstance(blocks, (list, tuple)) or len(blocks) < layers:
        raise InputError("`block_configs` does not describe every layer", hint="check the config.json")
    dim = head_dim(config, attention)
    caches: list[Cache] = []
    for layer, block in enumerate(blocks[:layers]):
        inner = block.get("attention") if isinstance(block, Mapping) else None
        if not isinstance(inner, Mapping):
            raise unknown(config, f"block_configs[{layer}]")
        if inner.get("no_op"):
            continue
        if inner.get("replace_with_linear"):
            continue
        per_group = check_integer(
            inner.get("n_heads_in_group"), f"block_configs[{layer}].attention.n_heads_in_group", kind="heads"
        )
        check_groups(attention, per_group)
        caches.append(Heads(attention, attention // per_group, dim, dim).full(layer))
    return Parts(layers=layers, attention_heads=attention, caches=tuple(caches))
