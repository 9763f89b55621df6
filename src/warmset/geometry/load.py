"""From a path, a folder, a dict, a catalogue name or a Hub id to a `Geometry`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from warmset.errors import InputError, UnknownName
from warmset.geometry.catalogue import find, names
from warmset.geometry.config import check_shape, read_config
from warmset.geometry.geometry import Geometry, uniform
from warmset.geometry.reading import read_geometry

CONFIG_NAME = "config.json"
QUANTIZATION_NAME = "hf_quant_config.json"


def load(source: str | Path | Mapping[str, Any], *, download: bool = False) -> Geometry:
    """The geometry of a model.

    Args:
        source: a config.json, the folder that holds it, its content as a dict, a name or alias of the
            catalogue, or a Hub id (`org/model`), looked up in the catalogue and in the local Hugging Face cache.
        download: whether a Hub id that is in neither may be fetched from the Hub.

    Raises:
        UnknownName: for a name that is in no catalogue.
        InputError: for a configuration that is broken, or whose caches warmset does not know.
    """
    if isinstance(source, Mapping):
        return from_config(source)
    if isinstance(source, Path) or _exists(source):
        return _from_path(Path(source).expanduser())
    text = source
    if _looks_like_path(text):
        raise InputError(f"there is no file `{text}`", hint="give a config.json, its folder, or a model name")
    found = _in_catalogue(text)
    if found is not None:
        return found
    if text.count("/") == 1:
        return _from_hub(text, download)
    raise UnknownName("model", text[:120], names(), hint="or give the path of its config.json")


def load_or_uniform(
    model: "str | Path | Mapping[str, Any] | Geometry | None",
    *,
    layers: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    download: bool = False,
) -> Geometry:
    """A model's geometry: as `load` finds it, or from three explicit numbers.

    Raises InputError for neither or both of these, and what `load` raises.
    """
    numbers = {"--layers": layers, "--kv-heads": kv_heads, "--head-dim": head_dim}
    given = [option for option, value in numbers.items() if value is not None]
    if model is not None and given:
        raise InputError(
            f"a model and `{given[0]}` contradict each other", hint="name the model or give the three numbers"
        )
    if isinstance(model, Geometry):
        return model
    if model is not None:
        return load(model, download=download)
    if layers is None or kv_heads is None or head_dim is None:
        missing = [option for option, value in numbers.items() if value is None]
        raise InputError(
            f"`{missing[0]}` is missing" if given else "no model is given",
            hint="name a model, such as `llama-3.1-8b`, give its config.json, or --layers, --kv-heads and --head-dim "
            "together",
        )
    return uniform(layers, kv_heads, head_dim)


def from_config(config: Mapping[str, Any], *, name: str | None = None) -> Geometry:
    """The geometry that a `config.json`, given as a dict, describes; see `load` for the errors."""
    if not isinstance(config, Mapping):
        raise InputError("the configuration is not an object", hint="give the content of a config.json")
    check_shape(config)
    return read_geometry(config, name)


def _from_path(path: Path) -> Geometry:
    file = path / CONFIG_NAME if path.is_dir() else path
    if not file.exists():
        raise InputError(
            f"there is no `{CONFIG_NAME}` in `{path}`", hint="give the folder of a model, or its config.json"
        )
    config = _with_quantization(read_config(file), file.parent / QUANTIZATION_NAME)
    name = config.get("_name_or_path")
    if not isinstance(name, str) or not 0 < len(name) < 200:
        name = (file.parent.name if file.name == CONFIG_NAME else file.stem) or None
    geometry = from_config(config, name=name)
    weights = _weight_bytes(file.parent) if file.name == CONFIG_NAME else None
    return replace(geometry, stored_weight_bytes=weights) if weights is not None else geometry


def _with_quantization(config: dict[str, Any], beside: Path) -> dict[str, Any]:
    """Older ModelOpt checkpoints keep their quantization, and with it the KV dtype, in a file of its own."""
    if config.get("quantization_config") is not None or not beside.is_file():
        return config
    return {**config, "quantization_config": read_config(beside)}


def _weight_bytes(folder: Path) -> int | None:
    """Bytes of the safetensors files in a model's folder; None if there are none."""
    sizes = [file.stat().st_size for file in sorted(folder.glob("*.safetensors")) if file.is_file()]
    return sum(sizes) or None


def _from_hub(model_id: str, download: bool) -> Geometry:
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        cached = try_to_load_from_cache(model_id, CONFIG_NAME)
        if isinstance(cached, str):
            file = Path(cached)
            return from_config(
                _with_quantization(read_config(file), file.parent / QUANTIZATION_NAME), name=model_id
            )
        if download:
            return from_config(read_config(Path(hf_hub_download(model_id, CONFIG_NAME))), name=model_id)
    except HFValidationError:
        raise UnknownName(
            "model", model_id[:120], names(), hint="or give the path of its config.json"
        ) from None
    except (HfHubHTTPError, OSError) as error:
        raise InputError(
            f"cannot fetch `{model_id}`: {str(error).splitlines()[0][:200] if str(error) else type(error).__name__}",
            hint="check the name and the network, or give the path of its config.json",
        ) from None
    raise UnknownName(
        "model",
        model_id[:120],
        names(),
        hint="neither the catalogue nor the local Hugging Face cache has it: add `--download`, or give its config.json",
    )


def _in_catalogue(name: str) -> Geometry | None:
    entry = find(name)
    if entry is None:
        return None
    facts = {
        "parameters": entry.parameters,
        "active_parameters": entry.active_parameters,
        "native_dtype": entry.native_dtype,
    }
    geometry = read_geometry(entry.config, entry.name, facts)
    return replace(geometry, stored_weight_bytes=entry.weight_bytes)


def _exists(text: str) -> bool:
    """Whether `text` names a file or folder; text that cannot be a path does not."""
    try:
        return bool(text) and Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def _looks_like_path(text: str) -> bool:
    return text.startswith((".", "/", "~")) or text.endswith(".json") or text.count("/") > 1
