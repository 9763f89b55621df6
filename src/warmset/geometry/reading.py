"""From a configuration to a `Geometry`: pick the text part, the family's reader, the dtype and the maximum context."""

from collections.abc import Mapping
from typing import Any

from warmset.geometry.config import Config
from warmset.geometry.geometry import Geometry
from warmset.geometry.readers import latent, plain

NESTED = ("text_config", "language_config", "llm_config", "thinker_config", "language_model_config")


def read_geometry(config: Mapping[str, Any], name: str | None, extras: Mapping[str, Any] | None = None) -> Geometry:
    """The geometry of a checked configuration; `extras` are a catalogue's facts (parameter counts)."""
    view = Config(_text_part(config), config, {})
    parts = latent.read(view) if view.raw("kv_lora_rank") is not None else plain.read(view)
    more = extras or {}
    return Geometry(
        caches=parts.caches,
        layers=parts.layers,
        name=name,
        model_type=view.model_type or None,
        architecture=view.architecture or None,
        attention_heads=parts.attention_heads,
        max_context_tokens=view.maybe_integer("max_position_embeddings", kind="tokens"),
        parameters=more.get("parameters"),
        active_parameters=more.get("active_parameters"),
        native_dtype=more.get("native_dtype"),
    )


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in NESTED:
        nested = config.get(key)
        if isinstance(nested, Mapping):
            return _text_part(nested)
    return config
