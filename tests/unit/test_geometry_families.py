"""Families and spellings that the oracle's models do not show, each against its own closed form."""

from typing import Any

import pytest

from warmset.geometry import Footprint, from_config

BASE: dict[str, Any] = {
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "hidden_size": 1024,
    "torch_dtype": "bfloat16",
}
LAYER = 2 * 4 * 64 * 2  # one layer of BASE, per token


def footprint(model_type: str, **more: Any) -> Footprint:
    return from_config({"model_type": model_type, **BASE, **more}).footprint()


@pytest.mark.parametrize(
    ("model_type", "more", "growing", "windowed"),
    [
        ("llama", {}, 8, 0),
        ("llama", {"layer_types": ["sliding_attention", "full_attention"] * 4, "sliding_window": 512}, 4, 4),
        ("llama", {"layer_types": ["sliding_attention", "full_attention"] * 9, "sliding_window": 512}, 4, 4),
        ("starcoder2", {"sliding_window": 512}, 0, 8),
        ("qwen2", {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 0}, 0, 8),
        ("qwen2", {"sliding_window": 512, "use_sliding_window": True, "max_window_layers": 8}, 8, 0),
        ("qwen2", {"sliding_window": 512, "use_sliding_window": False}, 8, 0),
        ("qwen3_moe", {"sliding_window": None}, 8, 0),
        ("mistral", {"sliding_window": 0}, 8, 0),
        ("cohere2", {"sliding_window": 512}, 2, 6),
        ("olmo3", {"sliding_window": 512}, 2, 6),
        ("exaone4", {"sliding_window": 512, "sliding_window_pattern": "LLLG"}, 2, 6),
        ("exaone4", {"sliding_window": None}, 8, 0),
        ("gpt_oss", {"sliding_window": 512, "head_dim": 64}, 4, 4),
        ("gemma2", {"sliding_window": 512, "head_dim": 64}, 4, 4),
        ("gemma3_text", {"sliding_window": 512, "head_dim": 64}, 1, 7),
        ("gemma3_text", {"sliding_window": 512, "head_dim": 64, "sliding_window_pattern": 4}, 2, 6),
        ("cwm", {"sliding_window": 512, "head_dim": 64}, 2, 6),
        ("smollm3", {}, 8, 0),
        ("laguna", {"sliding_window": 512, "head_dim": 64}, 8, 0),
    ],
)
def test_windows(model_type: str, more: dict[str, Any], growing: int, windowed: int) -> None:
    found = footprint(model_type, **more)
    assert found.bytes_per_token == growing * LAYER
    assert sum(found.windows.values()) == windowed * LAYER
    assert set(found.windows) <= {512, 513}


@pytest.mark.parametrize(
    ("config", "layer_bytes"),
    [
        ({"model_type": "falcon", "multi_query": True, "num_attention_heads": 16}, 2 * 1 * 64 * 2),
        (
            {
                "model_type": "falcon",
                "new_decoder_architecture": True,
                "num_kv_heads": 8,
                "multi_query": True,
            },
            2048,
        ),
        ({"model_type": "gpt_bigcode", "n_layer": 8, "n_head": 16, "n_embd": 1024}, 2 * 1 * 64 * 2),
        ({"model_type": "gpt2", "n_layer": 8, "n_head": 16, "n_embd": 1024}, 2 * 16 * 64 * 2),
        (
            {
                "model_type": "mpt",
                "n_layers": 8,
                "n_heads": 16,
                "d_model": 1024,
                "attn_config": {"kv_n_heads": 2},
            },
            512,
        ),
        (
            {
                "model_type": "dbrx",
                "n_layers": 8,
                "n_heads": 16,
                "d_model": 1024,
                "attn_config": {"kv_n_heads": 4},
            },
            LAYER,
        ),
        ({"model_type": "chatglm", "num_layers": 8, "multi_query_group_num": 2, "kv_channels": 64}, 512),
        ({"model_type": "bloom", "n_layer": 8, "n_head": 16, "hidden_size": 1024}, 2 * 16 * 64 * 2),
    ],
)
def test_spellings(config: dict[str, Any], layer_bytes: int) -> None:
    spelled = {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, **config}
    if "n_layer" in config or "n_layers" in config or "num_layers" in config:
        del spelled["num_hidden_layers"]
    if "n_head" in config or "n_heads" in config:
        del spelled["num_attention_heads"]
    assert from_config(spelled).footprint().bytes_per_token == 8 * layer_bytes


@pytest.mark.parametrize("key", ["text_config", "language_config", "llm_config"])
def test_nested_text_parts(key: str) -> None:
    nested = {
        "model_type": "some_vision_model",
        key: {"model_type": "llama", **BASE},
        "vision_config": {"depth": 3},
    }
    assert from_config(nested).footprint().bytes_per_token == 8 * LAYER
    deeper = {"model_type": "omni", "thinker_config": {"text_config": {"model_type": "qwen2", **BASE}}}
    assert from_config(deeper).footprint().bytes_per_token == 8 * LAYER


def test_whisper_keeps_its_encoder() -> None:
    config = {
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "decoder_layers": 4,
        "decoder_attention_heads": 8,
        "d_model": 512,
        "max_source_positions": 1500,
        "max_target_positions": 448,
    }
    found = from_config(config).footprint()
    assert found.bytes_per_token == 4 * 2 * 512 * 2
    assert found.bounded_bytes_per_session == 1500 * 4 * 2 * 512 * 2
    assert found.bytes_per_session(100) == 1600 * 4 * 2 * 512 * 2
    assert found.geometry.max_context_tokens == 448


def test_window_layers_with_heads_of_their_own() -> None:
    config = {
        "model_type": "step3p5",
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_attention_groups": 4,
        "hidden_size": 1024,
        "head_dim": 64,
        "sliding_window": 512,
        "layer_types": ["full_attention", *["sliding_attention"] * 3] * 3,
        "attention_other_setting": {
            "attention_type": "sliding_attention",
            "num_attention_heads": 24,
            "num_attention_groups": 8,
            "head_dim": 64,
        },
    }
    found = from_config(config).footprint()
    assert found.bytes_per_token == 2 * LAYER
    assert found.windows == {512: 6 * 2 * LAYER}


def test_longcat_has_two_latents_per_layer() -> None:
    config = {
        "model_type": "longcat_flash",
        "num_layers": 4,
        "num_attention_heads": 16,
        "hidden_size": 1024,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    }
    geometry = from_config(config)
    assert geometry.footprint().bytes_per_token == 2 * 4 * 576 * 2
    assert geometry.footprint(speculative_tokens=1).bytes_per_token == (2 * 4 + 1) * 576 * 2


def test_deepseek_v2_without_latents() -> None:
    found = footprint("deepseek_v2", kv_lora_rank=None, qk_nope_head_dim=0, qk_rope_head_dim=0)
    assert found.bytes_per_token == 8 * LAYER


def test_nas_layers_without_attention() -> None:
    attention = {"no_op": False, "n_heads_in_group": 4}
    blocks = [{"attention": attention}] * 6 + [{"attention": {"no_op": True}}] * 2
    found = footprint("nemotron-nas", block_configs=blocks, num_key_value_heads=None)
    assert found.bytes_per_token == 6 * LAYER


def test_speculation_without_own_layers_says_so() -> None:
    geometry = from_config({"model_type": "llama", **BASE})
    found = geometry.footprint(speculative_tokens=3)
    assert found.bytes_per_token == 8 * LAYER
    assert any("draft model" in note for note in found.notes)


def test_window_longer_than_the_context_grows_like_full() -> None:
    found = footprint("phi3", sliding_window=262144, max_position_embeddings=131072)
    assert found.bytes_per_session(131072) == 131072 * 8 * LAYER
    assert found.growth == "grows up to 262,144 tokens"


def test_state_copies_follow_prefix_caching_and_speculation() -> None:
    config = {
        "model_type": "qwen3_next",
        **BASE,
        "head_dim": 256,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 8,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }
    geometry = from_config(config)
    assert geometry.footprint().state_copies == 2
    assert geometry.footprint(prefix_caching=False).state_copies == 1
    assert geometry.footprint(speculative_tokens=3).state_copies == 5
    assert (
        geometry.footprint(platform="cpu").constant_bytes_per_session
        > geometry.footprint().constant_bytes_per_session
    )
