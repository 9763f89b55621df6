"""Models whose layers are all alike: full attention, or one sliding window for all."""

from warmset.errors import InputError
from warmset.geometry.config import Config
from warmset.geometry.readers.drafts import draft_count, draft_full
from warmset.geometry.readers.parts import Parts, layer_count, read_heads, unknown, window_tokens

_KINDS = ("full_attention", "attention", "sliding_attention")


def read(config: Config) -> Parts:
    """Llama, Qwen, Mistral, Phi and their many relatives.

    A `sliding_window` counts for every layer, unless `layer_types` lists other layers too: these models then
    run without a window.
    """
    layers, heads = layer_count(config), read_heads(config)
    if config.flag("use_cla") and config.integer("cla_share_factor", default=1, kind="layers") > 1:
        # vLLM's releases differ: some let layers share their caches, the Transformers backend does not.
        raise unknown(config, "use_cla", True)
    window = _common_window(config, layers)
    drafts = draft_count(config)
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.windowed(layer, window) for layer in range(layers)),
        draft_caches=draft_full(heads, layers, drafts),
        draft_modules=drafts,
    )


def _common_window(config: Config, layers: int) -> int | None:
    """The window of all layers, or None."""
    window = window_tokens(config)
    types = config.strings("layer_types")
    if types is not None:
        for name in types:
            if name not in _KINDS:
                raise unknown(config, "layer_types", name)
        return None if any(name != "sliding_attention" for name in types) else window
    if (
        window is None
        or config.raw("max_window_layers") is None
        or config.raw("use_sliding_window") is not True
    ):
        return window
    # Qwen: the layers from `max_window_layers` on have the window.
    first = config.integer("max_window_layers", kind="layers", low=0)
    if 0 < first < layers:
        raise InputError(
            f"`max_window_layers` {first} gives only some of the {layers} layers a window, which vLLM refuses too",
            hint="set `use_sliding_window` to false, or `max_window_layers` to 0 or the number of layers",
        )
    return window if first == 0 else None


def read_multi_query(config: Config) -> Parts:
    """Falcon and GPT-BigCode: one KV head where `multi_query` is set (and Falcon's newer layout is not)."""
    layers = layer_count(config)
    single = config.flag("multi_query") and not config.flag("new_decoder_architecture")
    heads = read_heads(config, kv=1 if single else None)
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.full(layer) for layer in range(layers)),
    )


def read_dbrx(config: Config) -> Parts:
    """DBRX and MPT: the KV heads are in `attn_config`."""
    layers = layer_count(config)
    inner = config.section("attn_config")
    heads = read_heads(config, kv=inner.maybe_integer("kv_n_heads", kind="heads"))
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.full(layer) for layer in range(layers)),
    )


def read_expanded_latent(config: Config) -> Parts:
    """MiniCPM3: its configuration looks like MLA, but vLLM caches keys and values of every head."""
    layers = layer_count(config)
    heads = read_heads(config, kv=config.integer("num_attention_heads", kind="heads"))
    dim = config.integer("qk_nope_head_dim") + config.integer("qk_rope_head_dim")
    expanded = type(heads)(heads.attention, heads.kv, dim, dim)
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(expanded.full(layer) for layer in range(layers)),
        notes=("vLLM does not use latent attention for MiniCPM3: it caches keys and values of every head",),
    )


def read_bidirectional(config: Config) -> Parts:
    """Encoders: attention in both directions, without a cache."""
    return Parts(layers=layer_count(config), caches=())
