"""Where a geometry comes from, and what a checkpoint's other files say."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from warmset.errors import InputError, UnknownName
from warmset.geometry import from_config, load

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 512,
    "torch_dtype": "bfloat16",
}
FLOAT8 = {"num_bits": 8, "type": "float", "dynamic": False}


def test_name_alias_hub_id_and_dict() -> None:
    assert load("llama-3.1-8b").caches == load("meta-llama/Llama-3.1-8B").caches
    assert load("LLAMA-3.1-8B").name == load("llama-3.1-8b").name
    assert load(CONFIG).name is None


def test_unknown_names_get_suggestions() -> None:
    with pytest.raises(UnknownName) as caught:
        load("lama-3.1-8b")
    assert "llama-3.1-8b" in caught.value.suggestions
    with pytest.raises(UnknownName, match="some/where"):
        load("some/where")


@pytest.mark.parametrize(
    ("quantization", "kv_dtype"),
    [
        ({"quant_method": "modelopt", "kv_cache_scheme": FLOAT8}, "fp8_e4m3"),
        ({"quant_method": "modelopt_fp4", "quantization": {"kv_cache_quant_algo": "FP8"}}, "fp8_e4m3"),
        ({"producer": {"name": "modelopt"}, "quantization": {"kv_cache_quant_algo": "NVFP4"}}, "nvfp4"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8}}, "fp8"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, "auto"),
        ({"quant_method": "fp8"}, "auto"),
        ({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 6}}, "auto"),
    ],
)
def test_auto_follows_the_checkpoint(quantization: dict[str, Any], kv_dtype: str) -> None:
    footprint = from_config({**CONFIG, "quantization_config": quantization}).footprint()
    assert footprint.kv_dtype == kv_dtype
    assert any("declares" in note for note in footprint.notes) == (kv_dtype != "auto")
    explicit = from_config({**CONFIG, "quantization_config": quantization}).footprint(kv_dtype="bf16")
    assert explicit.kv_dtype == "bfloat16"


def test_quantization_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "hf_quant_config.json").write_text(
        json.dumps({"producer": {"name": "modelopt"}, "quantization": {"kv_cache_quant_algo": "FP8"}})
    )
    assert load(tmp_path).footprint().kv_dtype == "fp8_e4m3"


def test_weights_are_weighed_where_they_lie(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert load(tmp_path).weight_bytes is None
    (tmp_path / "model-1.safetensors").write_bytes(bytes(1000))
    (tmp_path / "model-2.safetensors").write_bytes(bytes(500))
    assert load(tmp_path).weight_bytes == 1500


def test_library_defaults_are_named() -> None:
    nested = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "num_hidden_layers": 34}}
    geometry = from_config(nested)
    assert any("`num_key_value_heads`" in note and "gemma3_text" in note for note in geometry.notes)
    # A Mistral checkpoint that leaves the key out has the library's window; one that says null has none.
    assert from_config({**CONFIG, "model_type": "mistral"}).footprint().windows == {4096: 1024}
    assert not from_config({**CONFIG, "model_type": "mistral", "sliding_window": None}).footprint().windows


@pytest.mark.parametrize(
    ("more", "tokens"),
    [
        ({"max_position_embeddings": 8192}, 8192),
        ({"max_position_embeddings": 8192, "rope_scaling": {"type": "linear", "factor": 4.0}}, 32768),
        ({"max_position_embeddings": 8192, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, 8192),
        ({"max_position_embeddings": 8192, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 8192),
        ({"max_position_embeddings": 8192, "rope_parameters": {"rope_type": "default"}}, 8192),
        ({"max_position_embeddings": 8192, "seq_length": 4096}, 4096),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
    ],
)
def test_the_maximum_context(more: dict[str, Any], tokens: int) -> None:
    geometry = from_config({**CONFIG, **more})
    assert geometry.max_context_tokens == tokens
    geometry.footprint().bytes_per_session(tokens)
    with pytest.raises(InputError, match="past the model's maximum"):
        geometry.footprint().bytes_per_session(tokens + 1)


def test_an_unstated_maximum_is_no_maximum() -> None:
    geometry = from_config(CONFIG)
    assert geometry.max_context_tokens is None
    assert geometry.footprint().bytes_per_session(10**9) == 10**9 * 1024


def test_float32_checkpoints_are_served_in_16_bits() -> None:
    assert from_config({**CONFIG, "torch_dtype": "float32"}).footprint().bytes_per_token == 1024


def test_import_is_light() -> None:
    code = (
        "import sys, warmset.geometry; warmset.geometry.load('llama-3.1-8b').footprint();"
        "print(','.join(m for m in ('numpy', 'pydantic', 'rich', 'click', 'huggingface_hub') if m in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""
