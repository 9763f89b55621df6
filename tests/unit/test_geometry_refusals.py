"""What warmset cannot know, it refuses: with the config key in the message, never with a number that looks right."""

from pathlib import Path
from typing import Any

import pytest

from warmset.errors import InputError
from warmset.geometry import from_config, load
from warmset.geometry.config import MAX_FILE_BYTES


def plain(**more: Any) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "hidden_size": 512,
        **more,
    }


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim"]
)
@pytest.mark.parametrize(
    "value", [-1, 10**12, 10**40, True, 2.0, 2.5, "8", [8], {"a": 1}, float("nan"), float("inf")]
)
def test_numbers_that_are_none(key: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        from_config(plain(**{key: value}))
    assert f"`{key}`" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size"]
)
def test_zero(key: str) -> None:
    with pytest.raises(InputError, match=f"`{key}`"):
        from_config(plain(**{key: 0}))


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "hidden_size"])
def test_a_flat_configuration_states_its_own_shape(key: str) -> None:
    config = plain()
    del config[key]
    with pytest.raises(InputError, match=f"`{key}`"):
        from_config(config)


def test_heads_that_do_not_group() -> None:
    with pytest.raises(InputError, match="`num_key_value_heads`"):
        from_config(plain(num_key_value_heads=3))


@pytest.mark.parametrize(
    ("key", "config"),
    [
        ("layer_types", plain(model_type="qwen3", layer_types=["full_attention", "weird_attention"] * 2)),
        ("use_cla", plain(model_type="hunyuan_v1_dense", use_cla=True, cla_share_factor=2)),
        (
            "_class_name",
            {"_class_name": "FluxTransformer2DModel", "num_layers": 19, "num_attention_heads": 24},
        ),
        ("architectures", plain(model_type="wav2vec2", architectures=["Wav2Vec2ForCTC"])),
        ("architectures", plain(model_type="dia", architectures=["DiaModel"])),
        (
            "rope_type",
            plain(max_position_embeddings=4096, rope_scaling={"rope_type": ["yarn"], "factor": 2.0}),
        ),
    ],
)
def test_what_may_not_be_plain_attention(key: str, config: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"`{key}`"):
        from_config(config)


def test_unknown_plain_model_is_read_with_a_note() -> None:
    geometry = from_config(plain(model_type="brand_new"))
    assert geometry.footprint().bytes_per_token == 4 * 2 * 2 * 64 * 2
    assert any("`brand_new`" in note for note in geometry.notes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_lora_rank", 512),
        ("qk_rope_head_dim", 64),
        ("v_head_dim", 64),
        ("mamba_d_state", 16),
        ("ssm_state_size", 16),
        ("state_size", 16),
        ("conv_kernel", 4),
        ("linear_num_key_heads", 4),
        ("linear_attn_config", {"kda_layers": [1]}),
        ("lru_width", 4),
        ("layer_types", ["full_attention", "linear_attention"]),
        ("layers_block_type", ["attention", "mamba"]),
        ("hybrid_override_pattern", "M*"),
        ("attn_type_list", [0, 1]),
        ("block_configs", [{}]),
        ("sliding_window", 1024),
        ("sliding_window_pattern", 4),
        ("attention_window_size", 1024),
        ("attention_chunk_size", 1024),
        ("compress_ratios", [4]),
        ("index_topk", 64),
        ("num_kv_shared_layers", 2),
        ("cla_share_factor", 2),
        ("cross_attention_layers", [1]),
        ("swa_num_key_value_heads", 2),
        ("full_attention_interval", 4),
        ("attn_layer_period", 4),
        ("sparse_attention_config", {"x": 1}),
        ("is_encoder_decoder", True),
        ("num_key_value_heads", [2, 2]),
    ],
)
def test_unknown_models_with_shaped_caches(key: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        from_config(plain(model_type="brand_new", **{key: value}))
    assert f"`{key}`" in caught.value.message
    config = plain(**{key: value})
    del config["model_type"]
    with pytest.raises(InputError):
        from_config(config)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sliding_window", None),
        ("use_sliding_window", False),
        ("layer_types", ["full_attention"] * 4),
        ("mamba", None),
    ],
)
def test_switched_off_keys_do_not_matter(key: str, value: Any) -> None:
    assert from_config(plain(model_type="brand_new", **{key: value})).footprint().bytes_per_token == 2048


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (
            plain(model_type="gemma2", head_dim=64, layer_types=["sliding_attention"] * 3, sliding_window=8),
            "layer_types",
        ),
        (plain(model_type="gemma2", head_dim=64, layer_types=["odd"] * 4, sliding_window=8), "layer_types"),
        (plain(model_type="gemma2", head_dim=64, layer_types="sliding", sliding_window=8), "layer_types"),
        (plain(model_type="cohere2", sliding_window_pattern=0, layer_types=3), "layer_types"),
        (plain(model_type="nemotron_h", hybrid_override_pattern="MX"), "hybrid_override_pattern"),
        (plain(model_type="nemotron_h", block_configs=[{}]), "block_configs"),
        (plain(model_type="deepseek_v4", compress_ratios=[4, 128]), "compress_ratios"),
        (plain(model_type="deepseek_v4", compress_ratios=[7] * 4), "compress_ratios"),
        (plain(model_type="deepseek_v3", kv_lora_rank=-1), "kv_lora_rank"),
        (
            plain(model_type="qwen2", use_sliding_window=True, sliding_window=8, max_window_layers=2),
            "max_window_layers",
        ),
        (plain(model_type="t5", is_encoder_decoder=True), "is_encoder_decoder"),
        (plain(model_type="nemotron-nas", block_configs=[{}] * 4), "block_configs[0]"),
        (plain(max_position_embeddings=-5), "max_position_embeddings"),
        (plain(max_position_embeddings=128, rope_scaling={"type": "linear", "factor": -2}), "factor"),
    ],
)
def test_known_families_with_broken_lists(config: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError) as caught:
        from_config(config)
    assert named in f"{caught.value.message} {caught.value.hint}"


def test_deep_and_wide_configurations() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = {"a": deep}
    with pytest.raises(InputError, match="nested"):
        from_config(plain(extra=deep))
    with pytest.raises(InputError, match="entries"):
        from_config(plain(extra=[0] * 300_000))


def test_huge_files(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as out:
        out.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(InputError, match="never that large"):
        load(file)


def test_special_files_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a file"):
        load(Path("/dev/zero"))


@pytest.mark.parametrize("name", ["", " ", "a" * 5000, "a\x00b", "org/mo del", "//", "a/b/c"])
def test_odd_names(name: str) -> None:
    with pytest.raises(InputError):
        load(name)


def test_integers_of_many_digits(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"num_hidden_layers": ' + "9" * 100_000 + "}")
    with pytest.raises(InputError):
        load(file)


@pytest.mark.parametrize(
    "config",
    [
        plain(model_type="nemotron_h", hybrid_override_pattern="M" * 1_000_000),
        plain(model_type="zamba2", layers_block_type=["mamba"] * 150_000),
    ],
)
def test_patterns_without_end(config: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="not between 1 and 4,096"):
        from_config(config)


def test_the_largest_model_is_still_quick() -> None:
    config = plain(
        model_type="deepseek_v4",
        num_hidden_layers=4096,
        head_dim=512,
        sliding_window=128,
        index_head_dim=128,
        compress_ratios=[4, 128] * 2048,
    )
    assert from_config(config).footprint(pp=64).bytes_per_token > 0
