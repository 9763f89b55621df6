"""The small models are what other readers take for models."""

import itertools
import json
import struct

import numpy as np
import pytest
from tokenizers import Tokenizer

from warmset.errors import InputError
from warmset.lab.model import ModelShape, read_shape, write_model


@pytest.mark.parametrize("attention", ["full", "sliding", "mixed"])
def test_a_model_is_written_and_read_back(tmp_path, attention):
    shape = ModelShape(attention=attention, hidden=64, intermediate=96, heads=4, head_dim=16)
    home = write_model(tmp_path / "m", shape, seed=3)
    again = write_model(tmp_path / "n", shape, seed=3)
    assert (home / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes()
    found = read_shape(home)
    assert (found.layers, found.kv_heads, found.head_dim, found.attention) == (4, 2, 16, attention)
    assert found.kv_bytes_per_block(32) == shape.kv_bytes_per_block(32)


def test_the_weights_are_a_safetensors_file(tmp_path):
    data = (write_model(tmp_path, ModelShape(vocabulary=512)) / "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    ranges = sorted(entry["data_offsets"] for name, entry in header.items() if name != "__metadata__")
    assert ranges[0][0] == 0
    assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    assert 8 + size + ranges[-1][1] == len(data)
    entry = header["model.embed_tokens.weight"]
    values = np.frombuffer(data[8 + size :][slice(*entry["data_offsets"])], "<f4")
    assert values.size == np.prod(entry["shape"])
    assert np.isfinite(values).all()


def test_the_tokenizer_reads_its_words(tmp_path):
    write_model(tmp_path, ModelShape(vocabulary=512))
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert tokenizer.encode("t5 t17 nothing").ids == [5, 17, 0]


@pytest.mark.parametrize("text", ["{", "[]", '{"hidden_size": 4}'])
def test_a_config_that_says_too_little_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match="does not describe a model"):
        read_shape(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab_size": 512}, "a vocabulary of 512"),
        ({"kv_lora_rank": 512}, "latent attention"),
        ({"layer_types": ["full_attention", "linear_attention"] * 2}, "layers of linear_attention"),
        ({"layer_types": ["full_attention"] + ["sliding_attention"] * 3}, "unequal numbers"),
    ],
)
def test_a_model_that_the_lab_cannot_size_is_refused(tmp_path, changes, said):
    config = json.loads((write_model(tmp_path, ModelShape()) / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(InputError, match=said):
        read_shape(tmp_path)
