"""`warmset footprint` as a person and a script use it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
EXPLICIT = ("--layers", 32, "--kv-heads", 8, "--head-dim", 128)


def plain(**more: Any) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
        **more,
    }


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    def write(**more: Any) -> Path:
        file = tmp_path / "config.json"
        file.write_text(json.dumps(plain(**more)))
        return file

    return write


def read(ran: Any) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    found: dict[str, Any] = ran.valid("footprint")
    return found


def test_worked_example(warmset: Run) -> None:
    found = read(warmset("footprint", *EXPLICIT, "--kv-dtype", "fp16", "--context", 8192, "-o", "json"))
    assert found["bytes_per_token"] == 131_072
    assert found["bytes_per_session"] == found["pool_bytes_per_session"] == 2**30
    assert found["kv_dtype"] == "float16"


def test_path_with_dtype_and_ranks(warmset: Run, config: Callable[..., Path]) -> None:
    found = read(warmset("footprint", config(), "--kv-dtype", "fp8", "--tp", 4, "-o", "json"))
    assert found["bytes_per_token"] == 65_536
    assert found["per_rank"]["bytes_per_token"] == 16_384
    assert found["bytes_per_session"] is None
    assert any("--context" in note for note in found["notes"])


def test_folder_is_as_good_as_its_config(warmset: Run, config: Callable[..., Path]) -> None:
    file = config()
    assert read(warmset("footprint", file.parent, "-o", "json"))["bytes_per_token"] == 131_072


def test_copies_count(warmset: Run) -> None:
    found = read(warmset("footprint", "deepseek-v3", "--tp", 8, "-o", "json"))
    assert found["bytes_per_token"] == 562_176
    assert found["per_rank"]["bytes_per_token"] == 70_272


def test_known_answers(warmset: Run) -> None:
    gemma = read(warmset("footprint", "gemma-3-27b", "-o", "json"))
    assert gemma["bytes_per_token"] == 81_920
    assert gemma["bounded_bytes_per_session"] == 436_207_616
    assert read(warmset("footprint", "Qwen/Qwen3-4B", "-o", "json"))["bytes_per_token"] == 147_456


def test_all_windows_never_say_just_zero(warmset: Run, config: Callable[..., Path]) -> None:
    file = config(model_type="mistral", sliding_window=4096)
    found = read(warmset("footprint", file, "--context", 32768, "-o", "json"))
    assert found["bytes_per_token"] == 0
    assert found["grows_up_to_tokens"] == 4096
    assert found["growth"] == "grows up to 4,096 tokens"
    assert found["bounded_bytes_per_session"] == found["bytes_per_session"] == 4096 * 131_072
    assert "grows up to 4,096 tokens" in warmset("footprint", file).out


def test_pipeline_ranks_add_up(warmset: Run, config: Callable[..., Path]) -> None:
    found = read(warmset("footprint", config(), "--pp", 3, "--tp", 2, "-o", "json"))
    assert [rank["layers"] for rank in found["ranks"]] == [11, 11, 10]
    assert sum(rank["bytes_per_token"] for rank in found["ranks"]) * 2 == found["bytes_per_token"]
    assert found["per_rank"] == found["ranks"][0]


def test_table_can_be_checked_by_hand(warmset: Run) -> None:
    out = warmset("footprint", "deepseek-v3", "--tp", 8).out
    assert "61 layers × 576 × 2 B × 8 ranks" in out
    assert "= 562,176 B per token" in out


@pytest.mark.parametrize("form", ["table", "json", "yaml", "md"])
def test_every_form(warmset: Run, form: str) -> None:
    ran = warmset("footprint", "gemma-3-27b", "--context", "8k", "-o", form)
    assert ran.code == 0
    assert "81" in ran.out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("llama-3.1-9b",), "`llama-3.1-9b`"),
        (("nobody/nothing-at-all",), "`nobody/nothing-at-all`"),
        (("./missing.json",), "`./missing.json`"),
        ((), "no model"),
        (("--layers", 32), "`--kv-heads`"),
        (("--layers", 0, "--kv-heads", 8, "--head-dim", 128), "`0`"),
        (("--layers", -3, "--kv-heads", 8, "--head-dim", 128), "`-3`"),
        (("--layers", 10**9, "--kv-heads", 8, "--head-dim", 128), "1,000,000,000"),
        (("llama-3.1-8b", "--layers", 3), "`--layers`"),
        (("llama-3.1-8b", "--kv-dtype", "fp7"), "`fp7`"),
        (("llama-3.1-8b", "--tp", 3), "`--tp 3`"),
        (("llama-3.1-8b", "--tp", 0), "`0`"),
        (("llama-3.1-8b", "--pp", 33), "`--pp 33`"),
        (("llama-3.1-8b", "--dcp", 3), "`--dcp 3`"),
        (("llama-3.1-8b", "--tp", 8, "--dcp", 8), "`--dcp 8`"),
        (("llama-3.1-8b", "--context", 131_073), "131,073"),
        (("llama-3.1-8b", "--context", 0), "`0`"),
        (("llama-3.1-8b", "--context", "-5"), "`-5`"),
        (("llama-3.1-8b", "--platform", "tpu"), "`tpu`"),
        (("llama-3.1-8b", "--block-size", 17), "`--block-size 17`"),
        (("llama-3.1-8b", "--kv-dtype", "fp8_ds_mla"), "`fp8_ds_mla`"),
        (("deepseek-v3", "--kv-dtype", "turboquant_k8v4"), "`turboquant_k8v4`"),
        (("llama-3.1-8b", "--speculative-tokens", -1), "`-1`"),
    ],
)
def test_bad_input(warmset: Run, arguments: tuple[object, ...], named: str) -> None:
    ran = warmset("footprint", *arguments, "-o", "json")
    assert ran.code == 2
    assert ran.out == ""
    assert named in ran.err
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err


def test_suggestions(warmset: Run) -> None:
    assert "did you mean `fp8" in warmset("footprint", "llama-3.1-8b", "--kv-dtype", "fp8_e4m4").err
    assert "llama-3.1-8b" in warmset("footprint", "llama3.1-8b").err


def test_encoder_is_refused(warmset: Run, config: Callable[..., Path]) -> None:
    for more in ({"model_type": "bert"}, {"is_causal": False}):
        ran = warmset("footprint", config(**more), "-o", "json")
        assert ran.code == 2
        assert "keeps no KV cache" in ran.err


def test_folder_without_a_config(warmset: Run, tmp_path: Path) -> None:
    ran = warmset("footprint", tmp_path)
    assert ran.code == 2
    assert "`config.json`" in ran.err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"num_hidden_layers": 3',
        "[]",
        "3",
        "null",
        '"text"',
        "{" * 100_000,
        "[" * 200_000,
        "\x00",
        "{}",
    ],
)
def test_broken_files(warmset: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    ran = warmset("footprint", file, "-o", "json")
    assert ran.code == 2, ran.err
    assert ran.out == ""
    assert "hint: " in ran.err


def test_hub_id_comes_from_the_local_cache(
    warmset: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    folder = tmp_path / "hub" / "models--some-org--some-model"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(commit)
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "snapshots" / commit / "config.json").write_text(json.dumps(plain()))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    found = read(warmset("footprint", "some-org/some-model", "-o", "json"))
    assert found["model"] == "some-org/some-model"
    assert found["bytes_per_token"] == 131_072


def test_help_has_examples(warmset: Run) -> None:
    out = warmset("footprint", "--help").out
    assert "Examples:" in out
    assert "Exit status:" in out
