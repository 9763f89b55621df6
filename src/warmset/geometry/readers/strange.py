"""What a plain model never has in its configuration: signs that its cache is shaped in some other way."""

import re
from typing import Any

from warmset.errors import InputError
from warmset.geometry.config import Config
from warmset.geometry.readers.parts import unknown

# Names, or parts of names, that shape caches in the models of today. A number, list or object under such a name
# means that reading the model as plain attention would be a guess.
STRANGE = re.compile(
    r"""
    kv_lora | q_lora_rank | qk_rope_head_dim | qk_nope_head_dim | \bmla | use_mla | v_head_dim | value_head_dim
    | (^|_)(ssm|mamba|rwkv|lru|retention|recurrent|gla|delta|hyena|xlstm|mlstm|slstm)(_|$|\d) | state_size | d_state
    | conv_(kernel|L_cache|dim|size|bias) | short_conv | conv1d | linear_(attn|attention|num|key|value|conv)
    | layer_types | layers_block_type | block_types?$ | block_configs | block_pattern | layer_pattern | attn_type
    | attention_types?
    | hybrid | (^|_)pattern($|_) | attn_layer | attention_layers? | full_attn | full_attention
    | layer_group_size | sliding | window | local_attention | global_attn | global_(head|kv|attention)
    | num_global
    | attention_chunk | chunked | no_rope_layer | swa_ | cla_ | use_cla | kv_shar | shared_kv | kv_reus
    | num_kv_shared | yoco
    | cross_attention_(layers|freq) | cross_attn | compress | ^index_ | indexer | sparse_attention
    | nsa | dsa
    | blocksparse | sink_ | num_sink | attn_config | memory_(size|tokens|slots) | encoder_layers
    | num_attention_groups_per | per_layer_(head|kv) | head_dims$ | num_query_heads_per_layer | num_kv_heads_per_layer
    """,
    re.VERBOSE | re.IGNORECASE,
)

ORDINARY_LAYERS = ("full_attention", "attention")

# What the names of architectures that generate text contain.
GENERATIVE = re.compile(r"CausalLM|ConditionalGeneration|LMHead", re.IGNORECASE)


def check_unknown(config: Config) -> None:
    """Refuse a model of unknown type that may not generate text, or holds anything that may shape its cache."""
    for key, named in (
        ("_class_name", config.top.get("_class_name")),
        ("architectures", config.architecture),
    ):
        if named and (key == "_class_name" or not GENERATIVE.search(named)):
            raise InputError(
                f"`{key}` is `{str(named)[:80]}`: warmset does not know that such a model keeps a KV cache",
                hint="name a model that generates text, or give --layers, --kv-heads and --head-dim",
            )
    for source in (config.text, config.top):
        for key, value in source.items():
            if isinstance(key, str) and STRANGE.search(key) and not _harmless(config, key, value):
                raise unknown(config, key, value)
    if config.top.get("is_encoder_decoder") is True:
        raise unknown(config, "is_encoder_decoder", True)
    for key in ("num_key_value_heads", "num_attention_heads", "head_dim", "hidden_size"):
        value = config.text.get(key)
        if isinstance(value, (list, tuple, dict)):
            raise unknown(config, key, value)


def _harmless(config: Config, key: str, value: Any) -> bool:
    """Switched off, empty, or naming ordinary layers only."""
    if value is None or value is False or value in (0, "", "none", "full"):
        return True
    if isinstance(value, (list, tuple, dict)) and not value:
        return True
    if key == "layer_types" and isinstance(value, (list, tuple)):
        return all(item in ORDINARY_LAYERS for item in value)
    if "window" in key or "sliding" in key:
        return config.text.get("use_sliding_window") is False
    return False
