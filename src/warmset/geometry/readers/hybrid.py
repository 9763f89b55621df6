"""Models that mix attention with Mamba layers, and models of Mamba layers alone."""

from collections.abc import Callable, Iterable

from warmset.geometry.cache import Cache
from warmset.geometry.config import Config, check_integer
from warmset.geometry.readers.drafts import draft_count
from warmset.geometry.readers.parts import (
    Parts,
    attention_heads,
    layer_count,
    layer_types,
    read_heads,
    unknown,
)
from warmset.geometry.state import State

ATTENTION = ("attention", "full_attention")
MAMBA = ("mamba", "linear_attention")
NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
NEMOTRON_KINDS = ("mamba", "linear_attention", "attention", "full_attention", "mlp", "moe")


def read_nemotron(config: Config) -> Parts:
    """Nemotron-H and Nemotron 3: the layers are a pattern of letters, or a list of block types."""
    if config.raw("block_configs") is not None:
        raise unknown(config, "block_configs")
    kinds = _nemotron_kinds(config, "hybrid_override_pattern", "layers_block_type")
    if kinds is None:
        raise unknown(config, "hybrid_override_pattern")
    layers, heads = check_integer(len(kinds), "hybrid_override_pattern", kind="layers"), read_heads(config)
    window = config.maybe_integer("sliding_window", kind="tokens", low=0) or None
    state = mamba2(
        config,
        inner=config.integer("mamba_num_heads", kind="heads") * config.integer("mamba_head_dim"),
        heads=config.integer("mamba_num_heads", kind="heads"),
        head_dim=config.integer("mamba_head_dim"),
        groups=config.integer("n_groups", kind="heads"),
        state_size=config.integer("ssm_state_size"),
        kernel=config.integer("conv_kernel", kind="small"),
    )
    draft = _nemotron_kinds(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type") or (
        "attention",
        "moe",
    )
    drafts = min(draft_count(config), 1)
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(
            heads.windowed(i, window) if kind in ATTENTION else state(i)
            for i, kind in enumerate(kinds)
            if kind in ATTENTION or kind in MAMBA
        ),
        draft_caches=tuple(
            heads.full(layers + i) for i, kind in enumerate(draft * drafts) if kind in ATTENTION
        ),
        draft_modules=drafts,
        state_dtype=_state_dtype(config, "mamba_ssm_cache_dtype", "float32"),
    )


def read_jamba(config: Config) -> Parts:
    """Jamba: Mamba 1, with attention once per `attn_layer_period`."""
    layers, heads = layer_count(config), read_heads(config)
    period = config.integer("attn_layer_period", kind="layers")
    offset = config.integer("attn_layer_offset", kind="layers", low=0)
    state = mamba1(
        inner=config.integer("mamba_expand", kind="small") * config.integer("hidden_size"),
        state_size=config.integer("mamba_d_state"),
        kernel=config.integer("mamba_d_conv", kind="small"),
    )
    kinds = layer_types(config, layers, ("attention", "mamba"), "layers_block_type") or tuple(
        "attention" if layer % period == offset else "mamba" for layer in range(layers)
    )
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.full(i) if kind == "attention" else state(i) for i, kind in enumerate(kinds)),
    )


def read_granite(config: Config) -> Parts:
    """Granite 4 hybrids and Bamba: Mamba 2 layers, with attention where the list says so."""
    layers, heads = layer_count(config), read_heads(config)
    kinds: tuple[str, ...] | None
    if config.raw("attn_layer_indices") is not None:
        attention = set(config.integers("attn_layer_indices") or ())
        kinds = tuple("attention" if layer in attention else "mamba" for layer in range(layers))
    else:
        kinds = layer_types(config, layers, (*ATTENTION, *MAMBA)) or ("mamba",) * layers
    state = _granite_state(config)
    notes = ("vLLM dropped this model after 0.23",) if config.model_type == "bamba" else ()
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(heads.full(i) if kind in ATTENTION else state(i) for i, kind in enumerate(kinds)),
        notes=notes,
    )


def read_falcon_h1(config: Config) -> Parts:
    """Falcon-H1: every layer has attention and a Mamba 2 state side by side."""
    layers, heads = layer_count(config), read_heads(config)
    inner = config.maybe_integer("mamba_d_ssm")
    state = _granite_state(config, inner)

    def both(layer: int) -> Iterable[Cache]:
        yield heads.full(layer)
        yield state(layer)

    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=tuple(cache for layer in range(layers) for cache in both(layer)),
    )


def read_zamba2(config: Config) -> Parts:
    """Zamba 2: Mamba 2 on every layer; hybrid layers also run a shared attention block, each with its own cache."""
    kinds = config.strings("layers_block_type")
    if kinds is None:
        raise unknown(config, "layers_block_type")
    layers = check_integer(len(kinds), "layers_block_type", kind="layers")
    heads = read_heads(config, kv=attention_heads(config))
    state = mamba2(
        config,
        inner=config.integer("mamba_expand", kind="small") * config.integer("hidden_size"),
        heads=config.integer("n_mamba_heads", kind="heads"),
        head_dim=config.integer("mamba_headdim"),
        groups=config.integer("mamba_ngroups", kind="heads"),
        state_size=config.integer("mamba_d_state"),
        kernel=config.integer("mamba_d_conv", kind="small"),
    )
    hybrid = [layer for layer, kind in enumerate(kinds) if kind == "hybrid"]
    return Parts(
        layers=layers,
        attention_heads=heads.attention,
        caches=(*(heads.full(layer) for layer in hybrid), *(state(layer) for layer in range(layers))),
    )


def read_mamba2(config: Config) -> Parts:
    """Mamba 2 alone (Codestral Mamba)."""
    layers = layer_count(config)
    expanded = config.integer("expand", kind="small") * config.integer("hidden_size")
    state = mamba2(
        config,
        inner=config.maybe_integer("intermediate_size") or expanded,
        heads=config.integer("num_heads", kind="heads"),
        head_dim=config.integer("head_dim"),
        groups=config.integer("n_groups", kind="heads"),
        state_size=config.integer("state_size"),
        kernel=config.integer("conv_kernel", kind="small"),
    )
    return Parts(layers=layers, caches=tuple(state(layer) for layer in range(layers)))


def read_mamba1(config: Config) -> Parts:
    """Mamba 1 alone (Mamba, Falcon Mamba)."""
    layers = layer_count(config)
    expanded = config.integer("expand", default=2, kind="small") * config.integer("hidden_size")
    state = mamba1(
        inner=config.maybe_integer("intermediate_size") or expanded,
        state_size=config.integer("state_size"),
        kernel=config.integer("conv_kernel", kind="small"),
    )
    return Parts(layers=layers, caches=tuple(state(layer) for layer in range(layers)))


def mamba1(*, inner: int, state_size: int, kernel: int) -> Callable[[int], State]:
    """Mamba 1: a convolution over the inner channels and a state vector per channel."""

    def state(layer: int) -> State:
        return State(
            layer=layer,
            scan="mamba1",
            conv_dim=inner,
            conv_rows=kernel - 1,
            conv_speculates=False,
            recurrent=(inner, state_size),
        )

    return state


def mamba2(
    config: Config, *, inner: int, heads: int, head_dim: int, groups: int, state_size: int, kernel: int
) -> Callable[[int], State]:
    """Mamba 2: a convolution over the inner channels and two vectors per group, and a matrix per head."""

    def state(layer: int) -> State:
        return State(
            layer=layer,
            scan="mamba2",
            conv_dim=inner,
            conv_rows=kernel - 1,
            groups=groups,
            group_dim=state_size,
            recurrent=(heads, head_dim, state_size),
        )

    return state


def _granite_state(config: Config, inner: int | None = None) -> Callable[[int], State]:
    heads = config.integer("mamba_n_heads", kind="heads")
    expanded = config.integer("mamba_expand", kind="small") * config.integer("hidden_size")
    wide = inner or expanded
    head_dim = config.raw("mamba_d_head")
    return mamba2(
        config,
        inner=wide,
        heads=heads,
        head_dim=max(wide // heads, 1) if head_dim in (None, "auto") else config.integer("mamba_d_head"),
        groups=config.integer("mamba_n_groups", kind="heads"),
        state_size=config.integer("mamba_d_state"),
        kernel=config.integer("mamba_d_conv", kind="small"),
    )


def _nemotron_kinds(config: Config, pattern_key: str, list_key: str) -> tuple[str, ...] | None:
    pattern = config.raw(pattern_key)
    if pattern is None:
        listed = config.strings(list_key) or config.strings(
            "layer_types" if list_key.startswith("layers") else list_key
        )
        if listed is not None:
            for name in listed:
                if name not in NEMOTRON_KINDS:
                    raise unknown(config, list_key, name)
        return listed
    if not isinstance(pattern, str) or not pattern or set(pattern) - set(NEMOTRON_LETTERS):
        raise unknown(config, pattern_key, pattern)
    return tuple(NEMOTRON_LETTERS[letter] for letter in pattern)


def _state_dtype(config: Config, key: str, default: str) -> str:
    value = config.raw(key, default)
    if value not in ("auto", "float32", "float16", "bfloat16"):
        raise unknown(config, key, value)
    return str(value)


state_dtype = _state_dtype
