"""The speculative (MTP) layers that some checkpoints bring along.

Which models vLLM 0.32 runs them for, and the key that counts them: `SpeculativeConfig.hf_config_override`.
"""

from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.readers.parts import Heads

_NEXT = "num_nextn_predict_layers"

# model type → (key that counts the layers, count when the key is absent)
DRAFT_KEYS: dict[str, tuple[str, int]] = {
    "deepseek_v3": (_NEXT, 0),
    "deepseek_v32": (_NEXT, 0),
    "deepseek_v4": (_NEXT, 0),
    "ernie4_5_moe": (_NEXT, 0),
    "exaone4_5": (_NEXT, 0),
    "exaone_moe": (_NEXT, 0),
    "glm4_moe": (_NEXT, 0),
    "glm4_moe_lite": (_NEXT, 0),
    "glm_moe_dsa": (_NEXT, 0),
    "hy_v3": (_NEXT, 0),
    "kimi_k3": (_NEXT, 0),
    "longcat_flash": (_NEXT, 1),
    "mimo": (_NEXT, 0),
    "minimax_m3_vl": ("num_mtp_modules", 0),
    "nemotron_h": (_NEXT, 0),
    "pangu_ultra_moe": (_NEXT, 0),
    "qwen3_5": ("mtp_num_hidden_layers", 0),
    "qwen3_5_moe": ("mtp_num_hidden_layers", 0),
    "qwen3_5_moe_text": ("mtp_num_hidden_layers", 0),
    "qwen3_5_text": ("mtp_num_hidden_layers", 0),
    "qwen3_next": (_NEXT, 1),
    "step3p5": (_NEXT, 1),
    "bailing_hybrid": (_NEXT, 0),
}


def draft_count(config: Config) -> int:
    """Speculative layers of the checkpoint that the server can run; 0 for the other models."""
    top = config.top.get("model_type")
    found = DRAFT_KEYS.get(top) if isinstance(top, str) else None
    found = found or DRAFT_KEYS.get(config.model_type)
    if found is None:
        return 0
    key, absent = found
    return config.integer(key, default=absent, kind="layers", low=0)


def draft_full(heads: Heads, layers: int, count: int) -> tuple[Cache, ...]:
    """Draft layers of full attention, numbered after the model's own."""
    return tuple(heads.full(layers + index) for index in range(count))
