"""What must be equal for two engines to share KV blocks: weights, everything that shapes them, and the layout."""

import gc
import json
import os
import secrets
from pathlib import Path
from typing import Any

from vllm.config import VllmConfig
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.v1.kv_offload.base import OffloadingSpec
from vllm.version import __version__ as vllm_version

from warmset.tiers.weights import default_cache_file, weights_fingerprint

logger = init_logger(__name__)

# Changes whenever stored blocks of the version before may not be read any more.
FORMAT_VERSION = 1

# Says nothing about the KV cache, and differs between copies of one checkpoint.
_IRRELEVANT_KEYS = ("_name_or_path", "transformers_version", "architectures_source", "torch_dtype", "dtype")


def fingerprint(
    spec: OffloadingSpec,
    *,
    block_bytes: int,
    tenant: str,
    model_path: str | None,
    adapters_version: str | None = None,
    encryption_key_id: str | None = None,
) -> str:
    """A canonical text of all facts; engines with equal texts write byte-compatible blocks under equal keys.

    Raises ValueError when the model's files cannot be found: an assumption here would serve wrong tokens.
    """
    config = spec.config
    vllm_config = _vllm_config_of(spec)
    model = vllm_config.model_config
    parallel = config.parallel
    portable = parallel.is_parallelism_agnostic or config.replicated_layout
    facts = {
        "format": FORMAT_VERSION,
        "tenant": tenant,
        # Without its key an encrypted block is no block. Compression is not here: every header names its own.
        "encryption_key": encryption_key_id,
        # Kernels and layouts change between versions, and nothing in a block would tell.
        "vllm": vllm_version,
        "weights": weights_fingerprint(_weights_folder(model, model_path), cache_file=default_cache_file()),
        "model": _model_facts(model),
        "load_format": str(vllm_config.load_config.load_format),
        "draft": _draft_facts(vllm_config),
        "private": _private(vllm_config, adapters_version),
        "adapters": adapters_version,
        "kv_dtype": config.model.dtype,
        "cache_dtype": str(vllm_config.cache_config.cache_dtype),
        "layout": _layout(spec, vllm_config),
        "canonical": config.canonical_layout,
        "replicated": config.replicated_layout,
        "parallel": None
        if portable
        else [parallel.tp_size, parallel.pp_size, parallel.pcp_size, parallel.dcp_size, parallel.world_size],
        "groups": [[g.tokens_per_block, list(g.layer_names)] for g in config.groups],
        "tokens_per_hash": config.cache.tokens_per_hash,
        "blocks_per_chunk": config.cache.blocks_per_chunk,
        "block_bytes": block_bytes,
    }
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def _layout(spec: OffloadingSpec, config: VllmConfig) -> Any:
    """The resolved layout of the workers' KV cache; where the version does not tell, all that it follows from."""
    told = getattr(spec.config, "kv_cache_layout", None)
    if told is not None:
        return told
    backend = getattr(getattr(config, "attention_config", None), "backend", None)
    asked = [os.environ.get(name) for name in ("VLLM_KV_CACHE_LAYOUT", "VLLM_ATTENTION_BACKEND")]
    # The backend that is chosen by default, and its layout, depend on the device.
    return [*asked, str(backend), current_platform.get_device_name()]


def weights_may_change(spec: OffloadingSpec) -> bool:
    """Whether the weights in memory can be replaced while the server runs (sleep mode, weight transfer)."""
    config = _vllm_config_of(spec)
    return bool(
        getattr(config.model_config, "enable_sleep_mode", False)
        or getattr(config, "weight_transfer_config", None) is not None
    )


def has_only_full_attention(spec: OffloadingSpec) -> bool:
    """Whether every lookup goes along a prefix from its root on; sliding windows are looked up from their end."""
    config = _vllm_config_of(spec)
    return len(spec.config.groups) == 1 and config.model_config.get_sliding_window() is None


def _draft_facts(config: VllmConfig) -> dict[str, Any] | None:
    """A draft model's KV lies in the same blocks."""
    draft = getattr(config.speculative_config, "draft_model_config", None)
    if draft is None:
        return None
    same = draft.model == config.model_config.model
    weights = (
        None if same else weights_fingerprint(_weights_folder(draft, None), cache_file=default_cache_file())
    )
    return {"weights": weights, "model": _model_facts(draft)}


def _private(config: VllmConfig, adapters_version: str | None) -> str | None:
    """A token that no other engine has, where something that shapes KV cannot be known from here.

    vLLM's keys name an adapter and its path, not its content; scales that are computed while serving differ between
    engines.
    """
    adapters = config.lora_config is not None and adapters_version is None
    scales = bool(getattr(config.cache_config, "calculate_kv_scales", False))
    if adapters:
        logger.warning(
            "warmset tier: adapters may change under their names: no block is shared with other engines or later "
            "starts, unless `adapters_version` of the tier says which version all of them have"
        )
    return secrets.token_hex(16) if adapters or scales else None


def _model_facts(model: Any) -> dict[str, Any]:
    """The resolved model configuration (overrides included) and what else changes the numbers."""
    hf_config = json.loads(model.hf_config.to_json_string(use_diff=False))
    for key in _IRRELEVANT_KEYS:
        hf_config.pop(key, None)
    return {
        "hf_config": hf_config,
        "dtype": str(model.dtype),
        "quantization": model.quantization,
        # Long-context RoPE picks its factors by the maximum length, for all positions.
        "max_model_len": model.max_model_len if _rope_depends_on_length(hf_config) else None,
    }


def _rope_depends_on_length(hf_config: Any) -> bool:
    if isinstance(hf_config, dict):
        kind = str(hf_config.get("rope_type", hf_config.get("type", ""))).lower()
        return kind in ("longrope", "su", "dynamic") or any(
            _rope_depends_on_length(v) for v in hf_config.values()
        )
    return False


def _weights_folder(model: Any, model_path: str | None) -> Path:
    name = model_path or model.model
    if Path(name).exists():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=model.revision, local_files_only=True))
    except (LocalEntryNotFoundError, HfHubHTTPError, ValueError, OSError):
        raise ValueError(
            f"the weights of `{name}` are not in the local Hugging Face cache: set `model_path` of the tier to "
            "the folder that the server loads them from"
        ) from None


def _vllm_config_of(spec: OffloadingSpec) -> VllmConfig:
    """The configuration that this spec was made from.

    vLLM hands a tier only a part of it, without the revision, the overrides and the resolved model configuration, which
    decide whether blocks are compatible. The whole one exists in this process; the engine's id says which it is.
    """
    engine_id = spec.config.engine_id
    for thing in gc.get_objects():
        if type(thing) is VllmConfig:
            transfer = thing.kv_transfer_config
            if transfer is not None and transfer.engine_id == engine_id:
                return thing
    raise ValueError(f"no vLLM configuration with the engine id `{engine_id}` exists in this process")
