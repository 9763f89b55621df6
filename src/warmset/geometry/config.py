"""Reads `config.json` without trusting it: bounded size and depth, and numbers that are what they claim."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from warmset.errors import InputError

MAX_FILE_BYTES = 8 * 2**20
MAX_DEPTH = 32
MAX_NODES = 200_000
_MISSING = object()

LIMITS = {"layers": 4096, "heads": 65_536, "dim": 1 << 20, "tokens": 1 << 40, "small": 1 << 20}


def read_config(path: Path) -> dict[str, Any]:
    """The JSON object in `path`. Raises InputError if it is missing, too large, broken or not an object."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise InputError(f"`{path}` is not a file", hint="give a config.json or the folder that holds it")
        if size > MAX_FILE_BYTES:
            raise InputError(
                f"`{path}` is {size:,} bytes; a config.json is never that large",
                hint="give the model's config.json, not its weights or tokenizer",
            )
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot read `{path}`: {error.strerror or error}", hint="check the path and its permissions"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"`{path}` is not UTF-8 text", hint="give the model's config.json") from None
    try:
        parsed = json.loads(text)
    except RecursionError:
        raise InputError(f"`{path}` is nested too deeply", hint="give the model's config.json") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"`{path}` is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})",
            hint="download the file again: it may be cut off",
        ) from None
    except ValueError as error:
        raise InputError(
            f"`{path}` is not valid JSON: {error}", hint="give the model's config.json"
        ) from None
    if not isinstance(parsed, dict):
        raise InputError(
            f"`{path}` holds a JSON {_json_name(parsed)}, not an object", hint="give the model's config.json"
        )
    return parsed


def check_shape(config: Mapping[str, Any]) -> None:
    """Refuse configurations that are nested or long beyond reason."""
    nodes, level = 0, [config]
    for _ in range(MAX_DEPTH):
        following: list[Any] = []
        for node in level:
            children = node.values() if isinstance(node, Mapping) else node
            nodes += len(children)
            following.extend(child for child in children if isinstance(child, (Mapping, list, tuple)))
        if nodes > MAX_NODES:
            raise InputError(
                f"the configuration has more than {MAX_NODES:,} entries", hint="give the model's config.json"
            )
        if not following:
            return
        level = following
    raise InputError(
        f"the configuration is nested more than {MAX_DEPTH} levels deep", hint="give the model's config.json"
    )


class Config:
    """A model's text configuration: the nested one where there is one, read key by key.

    `top` is the whole file. Values that matter are checked when they are read: InputError names the key.
    `defaults` are what the transformers library fills in for the model's type.
    """

    def __init__(self, text: Mapping[str, Any], top: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        self.text = text
        self.top = top
        self.defaults = defaults
        self.used_defaults: dict[str, Any] = {}

    def __contains__(self, key: str) -> bool:
        return self.text.get(key) is not None

    def raw(self, key: str, default: Any = None) -> Any:
        """The value as written (or the library's default); None counts as absent."""
        value = self.text.get(key)
        if value is not None:
            return value
        fallback = self.defaults.get(key)
        if fallback is not None and key not in self.text:
            self.used_defaults[key] = fallback
            return fallback
        return default

    def integer(self, *keys: str, default: int | None = None, kind: str = "dim", low: int = 1) -> int:
        """The first of `keys` that is present, as a whole number from `low` up to the limit of its `kind`."""
        # What the checkpoint states in any spelling comes before a default in another.
        for key in sorted(keys, key=lambda name: self.text.get(name) is None):
            value = self.raw(key)
            if value is not None:
                return check_integer(value, key, kind=kind, low=low)
        if default is not None:
            return default
        raise InputError(
            f"the configuration has no `{keys[0]}`"
            + (f" (nor {', '.join(f'`{k}`' for k in keys[1:])})" if keys[1:] else ""),
            hint="give the complete config.json, or --layers, --kv-heads and --head-dim",
        )

    def maybe_integer(self, *keys: str, kind: str = "dim", low: int = 1) -> int | None:
        """Like `integer`, but None when no key is present."""
        return self.integer(*keys, kind=kind, low=low) if any(self.raw(k) is not None for k in keys) else None

    def flag(self, key: str, *, default: bool = False) -> bool:
        """A boolean; anything else is refused."""
        value = self.raw(key, default)
        if not isinstance(value, bool):
            raise InputError(f"`{key}` is `{value!r:.60}`, not true or false", hint="check the config.json")
        return value

    def strings(self, key: str) -> tuple[str, ...] | None:
        """A list of strings, or None."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
            raise InputError(f"`{key}` is not a list of strings", hint="check the config.json")
        return tuple(value)

    def integers(self, key: str, *, kind: str = "small", low: int = 0) -> tuple[int, ...] | None:
        """A list of whole numbers, or None."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, (list, tuple)):
            raise InputError(f"`{key}` is not a list of numbers", hint="check the config.json")
        return tuple(check_integer(item, key, kind=kind, low=low) for item in value)

    def mapping(self, key: str) -> dict[str, Any]:
        """An object; empty when absent."""
        value = self.raw(key, {})
        if not isinstance(value, Mapping):
            raise InputError(f"`{key}` is not an object", hint="check the config.json")
        return dict(value)

    def section(self, key: str) -> "Config":
        """A nested object, read in the same way."""
        return Config(self.mapping(key), self.top, {})

    def keys(self) -> Iterator[str]:
        """Keys that are present with a value."""
        return (key for key, value in self.text.items() if value is not None)

    @property
    def model_type(self) -> str:
        """`model_type` of the text configuration; empty when absent."""
        value = self.text.get("model_type") or self.top.get("model_type") or ""
        return value if isinstance(value, str) else ""

    @property
    def architecture(self) -> str:
        """The first of `architectures`; empty when absent."""
        value = self.top.get("architectures") or self.text.get("architectures") or ()
        return value[0] if isinstance(value, (list, tuple)) and value and isinstance(value[0], str) else ""


def check_integer(value: Any, key: str, *, kind: str = "dim", low: int = 1) -> int:
    """`value` as a whole number between `low` and the limit of its kind; InputError names `key`."""
    high = LIMITS[kind]
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"`{key}` is `{value!r:.60}`, not a whole number",
            hint=f"it must be a number from {low} to {high:,}",
        )
    if not low <= value <= high:
        shown = f"{value}" if abs(value) < 10**30 else "a number of more than 30 digits"
        raise InputError(
            f"`{key}` is `{shown}`, not between {low} and {high:,}", hint="check the config.json"
        )
    return value


def _json_name(value: Any) -> str:
    return {list: "array", str: "string", bool: "boolean", type(None): "null"}.get(type(value), "number")
