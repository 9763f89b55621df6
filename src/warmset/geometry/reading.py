"""From a configuration to a `Geometry`: the text part, the family's reader, the dtype, and the maximum context."""

import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from warmset.errors import InputError
from warmset.geometry.config import Config, check_integer
from warmset.geometry.geometry import Geometry
from warmset.geometry.readers.parts import HEAD_KEYS, LAYER_KEYS, WIDTH_KEYS
from warmset.geometry.readers.registry import ENCODERS, read_parts

NESTED = ("text_config", "language_config", "llm_config", "thinker_config", "text_model_config")
DTYPES = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "float": "float32",
}

# In the order in which vLLM looks for the maximum context; the smallest one counts.
CONTEXT_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# Rotary scalings whose factor is already in the maximum context.
COUNTED_SCALINGS = frozenset(("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"))
# gemma4: one video may need this many tokens in one batch (32 frames of 78 tokens).
GEMMA4_BATCHED_TOKENS = 2496


def read_geometry(
    config: Mapping[str, Any], name: str | None, extras: Mapping[str, Any] | None = None
) -> Geometry:
    """The geometry of a checked configuration; `extras` are a catalogue's facts (parameter counts, native dtype).

    Raises InputError for a configuration whose caches warmset does not know.
    """
    view = _view(config)
    parts = read_parts(view)
    more = extras or {}
    native = _native_dtype(view)
    context, key = _max_context(view)
    return Geometry(
        caches=parts.caches,
        layers=parts.layers,
        name=name,
        model_type=view.model_type or None,
        architecture=view.architecture or None,
        attention_heads=parts.attention_heads,
        draft_caches=parts.draft_caches,
        draft_modules=parts.draft_modules,
        model_dtype=_model_dtype(view, native),
        native_dtype=more.get("native_dtype") or native,
        declared_kv_dtype=_declared_kv_dtype(view),
        state_dtype=parts.state_dtype,
        max_context_tokens=context,
        max_context_key=key,
        block_outermost=parts.block_outermost,
        least_batched_tokens=_least_batched_tokens(view),
        parameters=more.get("parameters"),
        active_parameters=more.get("active_parameters"),
        notes=(*parts.notes, *_default_notes(view)),
    )


def _view(config: Mapping[str, Any]) -> Config:
    """The text part of the configuration, with the library's defaults for what it leaves out.

    A flat configuration must state its layers, heads and width itself (and has no maximum context unless it
    states one); a nested one may leave them to the library, as multimodal checkpoints do.
    """
    text = _text_part(config)
    model_type = text.get("model_type") or config.get("model_type")
    defaults = dict(_library_defaults().get(model_type, {})) if isinstance(model_type, str) else {}
    if text is config:
        own = (
            *LAYER_KEYS,
            *HEAD_KEYS,
            *WIDTH_KEYS,
            *CONTEXT_KEYS,
            "decoder_layers",
            "decoder_attention_heads",
        )
        for key in own:
            defaults.pop(key, None)
    return Config(text, config, defaults)


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in NESTED:
        nested = config.get(key)
        if isinstance(nested, Mapping) and nested:
            return _text_part(nested)
    return config


@cache
def _library_defaults() -> dict[str, dict[str, Any]]:
    text = (files("warmset.geometry") / "data" / "transformers_defaults.json").read_text(encoding="utf-8")
    defaults: dict[str, dict[str, Any]] = json.loads(text)["defaults"]
    return defaults


def _native_dtype(view: Config) -> str | None:
    for source in (view.top, view.text, view.top.get("vision_config"), view.top.get("encoder_config")):
        if isinstance(source, Mapping):
            named = source.get("dtype") or source.get("torch_dtype")
            if isinstance(named, str):
                return DTYPES.get(named.removeprefix("torch."), named)
    return None


def _model_dtype(view: Config, native: str | None) -> str:
    """The type in which the server runs the model: 16 bits, unless the checkpoint says which, bfloat16."""
    if native == "float16" and view.model_type not in ("gemma2", "gemma3", "gemma3_text", "plamo2", "glm4"):
        return "float16"
    pooling = view.model_type in ENCODERS and native in (None, "float32")
    return "float16" if pooling else "bfloat16"


def _declared_kv_dtype(view: Config) -> str:
    """The KV dtype that the checkpoint's quantization asks for; `auto` if none."""
    quant = view.top.get("quantization_config")
    if not isinstance(quant, Mapping):
        quant = view.text.get("quantization_config")
    if not isinstance(quant, Mapping):
        return "auto"
    inner = quant.get("quantization")
    inner = inner if isinstance(inner, Mapping) else quant
    method = str(quant.get("quant_method", "")).lower()
    producer = quant.get("producer")
    if method.startswith("modelopt") or (
        isinstance(producer, Mapping) and producer.get("name") == "modelopt"
    ):
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            asked = inner.get(key) or quant.get(key)
            if asked:
                return _modelopt_kv_dtype(asked)
    if method in ("compressed-tensors", "compressed_tensors") and isinstance(
        quant.get("kv_cache_scheme"), Mapping
    ):
        return "fp8"
    return "auto"


def _modelopt_kv_dtype(asked: Any) -> str:
    if isinstance(asked, Mapping):
        if asked.get("type") == "float" and asked.get("num_bits") == 8 and asked.get("dynamic") is False:
            return "fp8_e4m3"
        return "nvfp4" if asked.get("type") == "float" and asked.get("num_bits") == 4 else "auto"
    return {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}.get(str(asked).lower(), "auto")


def _max_context(view: Config) -> tuple[int | None, str | None]:
    """The longest context of the model and the key that says so; rope scaling counted as vLLM counts it."""
    found = [
        (check_integer(view.raw(key), key, kind="tokens"), key)
        for key in CONTEXT_KEYS
        if _is_count(view.raw(key))
    ]
    if not found:
        return None, None
    tokens, key = min(found, key=lambda pair: pair[0])
    longer = view.raw("model_max_length")
    if _is_count(longer):
        tokens, key = longer, "model_max_length"
    if "gemma3" in view.model_type:
        return tokens, key
    factor = 1.0
    for rope in _ropes(view):
        kind = rope.get("rope_type") or rope.get("type") or "default"
        value = rope.get("factor")
        if not isinstance(kind, str):
            raise InputError(
                f"the rope scaling `rope_type` is `{kind!r:.60}`, not text", hint="check the config.json"
            )
        if kind not in COUNTED_SCALINGS and isinstance(value, (int, float)) and not isinstance(value, bool):
            factor = float(value)
    if not math.isfinite(factor) or not 0 < factor <= 1 << 20:
        raise InputError(
            f"the rope scaling `factor` is `{factor}`", hint="check `rope_scaling` in the config.json"
        )
    return int(tokens * factor), key if factor == 1 else f"{key} × rope scaling"


def _ropes(view: Config) -> Iterator[Mapping[str, Any]]:
    for key in ("rope_parameters", "rope_scaling"):
        rope = view.raw(key)
        if isinstance(rope, Mapping):
            nested = [value for value in rope.values() if isinstance(value, Mapping)]
            yield from nested or [rope]
            return


def _is_count(value: Any) -> bool:
    """Whether a length is stated at all; some checkpoints write a huge float for "no limit"."""
    return value is not None and not (isinstance(value, float) and value >= 1e18)


def _least_batched_tokens(view: Config) -> int:
    both_ways = view.raw("use_bidirectional_attention") == "vision"
    return GEMMA4_BATCHED_TOKENS if view.model_type.startswith("gemma4") and both_ways else 0


def _default_notes(view: Config) -> tuple[str, ...]:
    """Say which numbers come from the library and not from the checkpoint; switches and zeros change nothing."""
    return tuple(
        f"`{key}` is not in the configuration: the transformers library's {value} for `{view.model_type}` applies"
        for key, value in view.used_defaults.items()
        if value and not isinstance(value, bool)
    )
