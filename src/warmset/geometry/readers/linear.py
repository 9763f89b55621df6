"""Models that mix attention with gated delta nets, KDA, short convolutions or lightning attention."""

from warmset.errors import InputError
from warmset.geometry.cache import Cache
from warmset.geometry.config import Config
from warmset.geometry.latent import Latent
from warmset.geometry.readers.drafts import draft_count, draft_full
from warmset.geometry.readers.hybrid import state_dtype
from warmset.geometry.readers.latent import latent_width
from warmset.geometry.readers.minimax import linear_state
from warmset.geometry.readers.parts import Parts, attention_heads, every, layer_count, layer_types, read_heads
from warmset.geometry.state import State

FULL, LINEAR, CONV = "full_attention", "linear_attention", "conv"


def read_gated_delta(config: Config) -> Parts:
    """Qwen3-Next, Qwen3.5 and later, OLMo Hybrid: full attention on every fourth layer unless listed."""
    layers, heads, drafts = layer_count(config), read_heads(config), draft_count(config)
    kinds = layer_types(config, layers, (FULL, LINEAR))
    if kinds is None:
        period = config.integer("full_attention_interval", default=4, kind="layers")
        kinds = tuple(FULL if last else LINEAR for last in every(layers, period, "full_attention_interval"))
    keys = config.integer("linear_num_key_heads", default=heads.attention, kind="heads")
    values = config.integer("linear_num_value_heads", default=heads.attention, kind="heads")
    key_dim = config.integer("linear_key_head_dim", default=_olmo_key_dim(config, keys))
    value_dim = config.integer("linear_value_head_dim", default=2 * key_dim)
    rows = config.integer("linear_conv_kernel_dim", kind="small") - 1

    def state(layer: int) -> State:
        return State(
            layer=layer,
            scan="gated_delta",
            conv_dim=2 * key_dim * keys + value_dim * values,
            conv_rows=rows,
            recurrent=(values, value_dim, key_dim),
        )

    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.full(i) if kind == FULL else state(i) for i, kind in enumerate(kinds)),
        draft_caches=draft_full(heads, layers, drafts),
        draft_modules=drafts,
        state_dtype=state_dtype(config, "mamba_ssm_dtype", "auto")
        if "qwen3_5" in config.model_type
        else "auto",
    )


def _olmo_key_dim(config: Config, keys: int) -> int | None:
    """OLMo Hybrid leaves the size of its keys to a rule: three quarters of the width, over the heads."""
    return 3 * config.integer("hidden_size") // (4 * keys) if config.model_type == "olmo_hybrid" else None


def read_kda(config: Config) -> Parts:
    """Kimi Linear and Kimi K3: KDA state on the layers listed (from 1), latent attention on the others."""
    layers, width, drafts = layer_count(config), latent_width(config), draft_count(config)
    inner = config.section("linear_attn_config")
    kda = set(inner.integers("kda_layers", kind="layers") or ())
    heads = inner.integer("num_heads", kind="heads") if kda else 1
    dim = inner.integer("head_dim") if kda else 1
    rows = inner.integer("short_conv_kernel_size", default=4, kind="small") - 1

    def cache(layer: int) -> Cache:
        if layer + 1 not in kda:
            return Latent(layer, width)
        return State(
            layer=layer,
            scan="kda",
            conv_dim=3 * heads * dim,
            conv_rows=rows,
            recurrent=(heads, dim, dim),
            recurrent_dtype="float32",
        )

    return Parts(
        layers=layers,
        attention_heads=attention_heads(config),
        caches=tuple(cache(layer) for layer in range(layers)),
        draft_caches=tuple(Latent(layers + i, width) for i in range(drafts)),
        draft_modules=drafts,
    )


def read_short_conv(config: Config) -> Parts:
    """LFM2: short convolutions, with attention where the list says so."""
    layers, heads = layer_count(config), read_heads(config)
    kinds = layer_types(config, layers, (FULL, CONV))
    if kinds is None:
        indices = config.integers("full_attn_idxs")
        if indices is None:
            raise InputError(
                "the configuration has neither `layer_types` nor `full_attn_idxs`", hint="check it"
            )
        kinds = tuple(FULL if layer in indices else CONV for layer in range(layers))
    width = config.integer("hidden_size")
    if config.model_type == "lfm2":
        width = config.integer("conv_dim", default=width)
    rows = config.integer("conv_L_cache", kind="small") - 1

    def state(layer: int) -> State:
        return State(layer=layer, scan="short_conv", conv_dim=width, conv_rows=rows)

    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.full(i) if kind == FULL else state(i) for i, kind in enumerate(kinds)),
    )


def read_bailing(config: Config) -> Parts:
    """Ling 2.5: latent attention closes each group of `layer_group_size` layers of lightning attention."""
    layers, width, drafts = layer_count(config), latent_width(config), draft_count(config)
    heads = read_heads(config, kv=attention_heads(config))
    period = config.integer("layer_group_size", default=1, kind="layers", low=0) or 1
    closing = every(layers, period, "layer_group_size")
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(Latent(i, width) if last else linear_state(heads, i) for i, last in enumerate(closing)),
        draft_caches=tuple(Latent(layers + i, width) for i in range(drafts)),
        draft_modules=drafts,
    )
