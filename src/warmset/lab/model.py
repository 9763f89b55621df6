"""Writes small language models with random weights, so that nothing has to be downloaded.

A model is a directory that vLLM and transformers read like any other: config.json, model.safetensors and
a word-level tokenizer. What it says is noise; what its KV cache costs and how it is reused is real.
"""

import json
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warmset.errors import InputError
from warmset.lab.workload import LAST_TOKEN

Attention = Literal["full", "sliding", "mixed"]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the lab's model looks like.

    Attributes:
        attention: `full`; `sliding` (every layer sees a window); `mixed` (full and sliding layers in turn,
            which makes two KV cache groups).
        window_tokens: the sliding window.
    """

    layers: int = 4
    hidden: int = 256
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64
    intermediate: int = 1024
    vocabulary: int = 8192
    attention: Attention = "full"
    window_tokens: int = 64
    max_context_tokens: int = 32768

    def kv_bytes_per_block(self, block_tokens: int) -> int:
        """Bytes of one block of the server's pool at float32.

        A block serves the layers of one KV cache group; with two kinds of attention that is half of them.
        """
        layers = self.layers // 2 if self.attention == "mixed" else self.layers
        return 2 * layers * self.kv_heads * self.head_dim * 4 * block_tokens


def write_model(directory: Path, shape: ModelShape, *, seed: int = 0) -> Path:
    """Write the model and return its directory; the same shape and seed give the same bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(_config(shape), indent=1), encoding="utf-8")
    _write_safetensors(directory / "model.safetensors", _weights(shape, np.random.default_rng(seed)))
    _write_tokenizer(directory, shape.vocabulary)
    return directory


def read_shape(directory: Path) -> ModelShape:
    """The shape of a model that is there already; InputError where its config.json does not say.

    What the lab cannot size or fill is refused too: other attention, or a vocabulary that is too small.
    """
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        heads = int(config["num_attention_heads"])
        kinds = Counter(config.get("layer_types") or ())
        attention: Attention = "full"
        _check_attention(config, kinds)
        if len(kinds) > 1:
            attention = "mixed"
        elif config.get("sliding_window") and config.get("use_sliding_window", True):
            attention = "sliding"
        if int(config["vocab_size"]) < LAST_TOKEN:
            raise ValueError(f"a vocabulary of {config['vocab_size']}, fewer than {LAST_TOKEN:,} tokens")
        return ModelShape(
            layers=int(config["num_hidden_layers"]),
            hidden=int(config["hidden_size"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
            vocabulary=int(config["vocab_size"]),
            attention=attention,
            max_context_tokens=int(config.get("max_position_embeddings", 32768)),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
        raise InputError(
            f"the config.json of `{directory}` does not describe a model that the lab knows: {why}",
            hint="the lab runs plain decoder models; leave `--model` out to use its own",
        ) from None


def _check_attention(config: Mapping[str, Any], kinds: Mapping[str, int]) -> None:
    """Raise ValueError where a block's bytes do not follow from heads and layers alone."""
    if config.get("kv_lora_rank"):
        raise ValueError("latent attention (kv_lora_rank)")
    if other := set(kinds) - {"full_attention", "sliding_attention"}:
        raise ValueError(f"layers of {min(other)}")
    if len(set(kinds.values())) > 1:
        raise ValueError("full and sliding layers in unequal numbers")


def _config(shape: ModelShape) -> dict[str, Any]:
    config: dict[str, Any] = {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.max_context_tokens,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    if shape.attention == "full":
        return config | {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    if shape.attention == "sliding":
        return config | {
            "architectures": ["MistralForCausalLM"],
            "model_type": "mistral",
            "sliding_window": shape.window_tokens,
        }
    kinds = ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(shape.layers)]
    return config | {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": shape.window_tokens,
        "layer_types": kinds,
        "query_pre_attn_scalar": shape.head_dim,
        "rope_local_base_freq": 10000.0,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    }


def _weights(shape: ModelShape, random: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    hidden, heads, kv = shape.hidden, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        # Large enough that greedy decoding depends on the context, small enough to stay finite.
        return random.normal(0.0, columns**-0.5, (rows, columns)).astype(np.float32)

    # Gemma's norms multiply by 1 + weight, the others by weight.
    gemma = shape.attention == "mixed"
    norm = np.full(hidden, 0.0 if gemma else 1.0, np.float32)
    head_norm = np.full(shape.head_dim, 0.0, np.float32)
    embedding = matrix(shape.vocabulary, hidden)
    if gemma:
        # Gemma scales embeddings up; left alone they would drown the context, and the model would echo.
        embedding *= 0.125
    weights = {"model.embed_tokens.weight": embedding, "model.norm.weight": norm}
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        weights |= {
            at + "self_attn.q_proj.weight": matrix(heads, hidden),
            at + "self_attn.k_proj.weight": matrix(kv, hidden),
            at + "self_attn.v_proj.weight": matrix(kv, hidden),
            at + "self_attn.o_proj.weight": matrix(hidden, heads),
            at + "mlp.gate_proj.weight": matrix(shape.intermediate, hidden),
            at + "mlp.up_proj.weight": matrix(shape.intermediate, hidden),
            at + "mlp.down_proj.weight": matrix(hidden, shape.intermediate),
            at + "input_layernorm.weight": norm,
            at + "post_attention_layernorm.weight": norm,
        }
        if gemma:
            weights |= {
                at + "pre_feedforward_layernorm.weight": norm,
                at + "post_feedforward_layernorm.weight": norm,
                at + "self_attn.q_norm.weight": head_norm,
                at + "self_attn.k_norm.weight": head_norm,
            }
    return weights


def _write_safetensors(path: Path, tensors: Mapping[str, NDArray[np.float32]]) -> None:
    """The safetensors format: an 8-byte length, a JSON header with byte ranges, then the bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, tensor in tensors.items():
        end = position + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [position, end]}
        position = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)))
        out.write(text)
        for tensor in tensors.values():
            out.write(np.ascontiguousarray(tensor, dtype="<f4").tobytes())


def _write_tokenizer(directory: Path, vocabulary: int) -> None:
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": 0,
                "content": "t0",
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {f"t{i}": i for i in range(vocabulary)}, "unk_token": "t0"},
    }
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "t0",
        "eos_token": "t0",
        "model_max_length": 1 << 30,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
