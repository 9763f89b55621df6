"""Models that mix sliding-window and full layers by a list or a fixed pattern."""

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.readers.drafts import draft_count, draft_full
from warmset.geometry.readers.parts import (
    Heads,
    Parts,
    every,
    layer_count,
    layer_types,
    read_heads,
    window_tokens,
)
from warmset.units import format_counted

FULL, SLIDING = "full_attention", "sliding_attention"
KNOWN = (FULL, SLIDING)

# The layer within each period that keeps full attention, where the configuration lists no `layer_types`:
# model type → (period, key that overrides the period, whether the first layer of a period is the full one)
PATTERNS: dict[str, tuple[int, str | None, bool]] = {
    "afmoe": (4, "global_attn_every_n_layers", False),
    "cohere2": (4, "sliding_window_pattern", False),
    "cwm": (4, None, True),
    "exaone4": (4, "sliding_window_pattern", False),
    "exaone4_5_text": (4, "sliding_window_pattern", False),
    "exaone_moe": (4, "sliding_window_pattern", False),
    "gemma2": (2, None, False),
    "gemma3": (6, "sliding_window_pattern", False),
    "gemma3_text": (6, "sliding_window_pattern", False),
    "gpt_oss": (2, None, False),
    "granite_swa": (4, None, True),
    "granitemoe_swa": (4, None, True),
    "olmo3": (4, None, False),
    "vaultgemma": (2, None, False),
}

# These have windows only where `layer_types` says so.
FULL_UNLESS_LISTED = frozenset(("laguna", "mellum", "smollm3"))

# Cohere's window reaches one token further back than its number says.
WINDOW_OFFSETS = {"cohere2": 1, "cohere2_moe": 1}


def read(config: Config) -> Parts:
    """Gemma 2 and 3, gpt-oss, Command A, EXAONE 4, OLMo 3, Llama-like models with `layer_types`, and others."""
    layers, heads = layer_count(config), read_heads(config)
    kinds = _kinds(config, layers)
    window = window_tokens(config)
    if window is None and SLIDING in kinds:
        window = config.integer("sliding_window", kind="tokens")
    reach = None if window is None else window + WINDOW_OFFSETS.get(config.model_type, 0)
    drafts = draft_count(config)
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.windowed(i, reach if kind == SLIDING else None) for i, kind in enumerate(kinds)),
        draft_caches=draft_full(heads, layers, drafts),
        draft_modules=drafts,
    )


def _kinds(config: Config, layers: int) -> tuple[str, ...]:
    if config.model_type == "gpt_oss":
        # vLLM alternates by layer number and does not read the list.
        return tuple(FULL if layer % 2 else SLIDING for layer in range(layers))
    listed = layer_types(config, layers, KNOWN)
    if listed is not None:
        return listed
    if config.model_type == "cohere2_moe":
        return _cohere_moe(config, layers)
    pattern = PATTERNS.get(config.model_type)
    if config.model_type in FULL_UNLESS_LISTED:
        return (FULL,) * layers
    if pattern is None:
        # No list and no pattern: a window counts for all layers.
        return (SLIDING if window_tokens(config) else FULL,) * layers
    period, key, full_first = pattern
    if key is not None and config.raw(key) is not None:
        if config.model_type.startswith("exaone") and isinstance(config.raw(key), str):
            period = len(config.raw(key))
        else:
            period = config.integer(key, kind="layers", low=0)
    if (config.model_type.startswith("exaone") and window_tokens(config) is None) or period == 0:
        return (FULL,) * layers
    if full_first:
        return tuple(FULL if layer % period == 0 else SLIDING for layer in range(layers))
    return tuple(FULL if last else SLIDING for last in every(layers, period, key or "sliding_window_pattern"))


def _cohere_moe(config: Config, layers: int) -> tuple[str, ...]:
    dense = config.integer("first_k_dense_replace", default=0, kind="layers", low=0)
    early = config.integer("prefix_dense_sliding_window_pattern", default=1, kind="layers")
    period = config.integer("sliding_window_pattern", default=4, kind="layers")
    first = every(min(dense, layers), early, "prefix_dense_sliding_window_pattern")
    rest = every(max(layers - dense, 0), period, "sliding_window_pattern")
    return tuple(FULL if full else SLIDING for full in (*first, *rest))


def read_two_head_sizes(config: Config) -> Parts:
    """MiMo-V2: window layers have their own KV heads and head sizes; its MTP layer is a window layer."""
    layers = layer_count(config)
    pattern = config.integers("hybrid_layer_pattern")
    if pattern is None:
        listed = layer_types(config, layers, KNOWN)
        pattern = (
            tuple(int(kind == SLIDING) for kind in listed)
            if listed
            else tuple(int(layer != 0 and (layer + 1) % 6 != 0) for layer in range(layers))
        )
    window = config.integer("sliding_window_size", "sliding_window", kind="tokens")
    heads = read_heads(config)
    heads = Heads(heads.attention, heads.kv, heads.dim, config.integer("v_head_dim", default=heads.dim))
    local_dim = config.integer("swa_head_dim", default=heads.dim)
    local = Heads(
        config.integer("swa_num_attention_heads", default=heads.attention, kind="heads"),
        config.integer("swa_num_key_value_heads", default=heads.kv, kind="heads"),
        local_dim,
        config.integer("swa_v_head_dim", default=local_dim),
    )
    if len(pattern) < layers:
        raise InputError(
            f"`hybrid_layer_pattern` names {format_counted(len(pattern), 'layer')}, but the model has {layers} "
            "(`num_hidden_layers`)",
            hint="check the config.json",
        )
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(local.window(i, window) if pattern[i] else heads.full(i) for i in range(layers)),
        draft_caches=(local.window(layers, window),),
        draft_modules=1,
    )


def read_step(config: Config) -> Parts:
    """Step 3.5: window layers may have their own head counts (`attention_other_setting`)."""
    layers = layer_count(config)
    drafts = draft_count(config)
    window = window_tokens(config)
    heads = read_heads(config)
    listed = config.strings("layer_types")
    other = config.section("attention_other_setting")
    other_kind = other.raw("attention_type")
    others = heads
    if other_kind is not None:
        others = Heads(
            other.integer("num_attention_heads", kind="heads"),
            other.integer("num_attention_groups", kind="heads"),
            *(2 * (other.integer("head_dim"),)),
        )

    def cache(layer: int) -> Cache:
        kind = listed[layer] if listed and layer < len(listed) else (FULL if layer % 2 else SLIDING)
        chosen = others if listed and kind == other_kind else heads
        return chosen.windowed(layer, window if kind == SLIDING else None)

    caches = tuple(cache(layer) for layer in range(layers))
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=caches,
        draft_caches=tuple(cache(layers + i) for i in range(drafts)),
        draft_modules=drafts,
    )
