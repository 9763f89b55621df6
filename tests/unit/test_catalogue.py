"""The model catalogue: facts that other people published, checked against independent counts."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from warmset.geometry.catalogue import CatalogueEntry, entries, find, hub_id, ids_to_choose, names

ROWS = entries()

# Totals of the tensors in the published checkpoints.
PUBLISHED = {
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "mistral-7b": 7_248_023_552,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "gemma-2-9b": 9_241_705_984,
    "phi-4": 14_659_507_200,
    "yi-34b": 34_388_917_248,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "deepseek-v3": 671_026_419_200,
    "kimi-k2": 1_026_408_232_448,
}


def test_it_is_large_and_names_never_collide() -> None:
    assert len(ROWS) >= 80
    counted = Counter(n.lower() for r in ROWS for n in (r.name, *r.aliases))
    assert [n for n, k in counted.items() if k > 1] == []
    assert set(names()) == set(counted)


def test_names_are_found_in_any_case() -> None:
    for spelling in ("Llama-3.1-8B", "meta-llama/Llama-3.1-8B-Instruct", " META-LLAMA/llama-3.1-8b "):
        entry = find(spelling)
        assert entry is not None
        assert entry.name == "llama-3.1-8b"
    assert find("no-such-model") is None


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_facts_are_in_range(row: CatalogueEntry) -> None:
    assert 1e8 < row.parameters < 5e12
    assert row.active_parameters is None or 5e8 < row.active_parameters < row.parameters
    assert row.native_dtype in ("bfloat16", "float16")
    assert row.source.startswith("https://")
    if row.weight_format:
        assert row.weight_bytes is not None
        assert 0.4 < row.weight_bytes / row.parameters < 1.2
    assert row.config["architectures"]


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_counts_equal_the_published_checkpoints(name: str, published: int) -> None:
    entry = find(name)
    assert entry is not None
    assert entry.parameters == pytest.approx(published, rel=1e-5)


@pytest.mark.parametrize("row", [r for r in ROWS if r.active_parameters is None], ids=lambda r: r.name)
def test_dense_counts_agree_with_the_configuration(row: CatalogueEntry) -> None:
    counted = None if "embedding" in row.name else _count_dense(dict(row.config))
    if counted is None:
        pytest.skip("no closed form for this architecture here")
    # Embedding models are published without an output head; vision towers come on top of what is counted.
    slack = 0.15 if _is_multimodal(row.config) else 0.02
    assert counted <= row.parameters * 1.02
    assert counted == pytest.approx(row.parameters, rel=slack)


def _is_multimodal(config: Any) -> bool:
    return any(
        "ConditionalGeneration" in a or "Vision" in a or a[4:5] == "V" for a in config["architectures"]
    )


def _count_dense(config: dict[str, Any]) -> int | None:
    """Weights of a decoder with GQA attention and a gated MLP; None for anything else."""
    kind = config["model_type"]
    text = {**config, **(config.get("text_config") or {})}
    known = ("llama", "qwen2", "qwen3", "mistral", "ministral", "phi3", "gemma2", "gemma3", "cohere", "glm4",
             "olmo", "seed_oss", "smollm3", "internlm3", "exaone4", "ernie4_5", "mimo")  # fmt: skip
    if not kind.startswith(known) or kind.startswith(
        ("gemma3n", "glm4_moe", "qwen3_5", "qwen3_next", "mllama")
    ):
        return None
    if not isinstance(text.get("intermediate_size"), int) or "vocab_size" not in text:
        return None
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    kv_heads = text.get("num_key_value_heads", heads)
    head_dim = text.get("head_dim", hidden // heads)
    tied = text.get("tie_word_embeddings", kind.startswith(("gemma", "cohere")))
    attention = 2 * hidden * head_dim * (heads + kv_heads)
    layer = attention + 3 * hidden * text["intermediate_size"]
    return int(text["vocab_size"] * hidden * (1 if tied else 2) + text["num_hidden_layers"] * layer)


def _fields(geometry: Any) -> dict[str, Any]:
    ours = ("name", "parameters", "active_parameters", "stored_weight_bytes", "native_dtype", "notes")
    return {f: getattr(geometry, f) for f in type(geometry).__dataclass_fields__ if f not in ours}


def _full_configs() -> list[Path]:
    folder = Path(__file__).resolve().parents[3] / "shared" / "geometry" / "configs"
    return sorted(folder.glob("*.json"))


@pytest.mark.parametrize("path", _full_configs(), ids=lambda p: p.stem)
def test_trimmed_configs_give_the_geometry_of_the_full_ones(path: Path) -> None:
    from warmset.geometry import load

    entry = find(path.stem.replace("__", "/"))
    if entry is None:
        pytest.skip("not in the catalogue")
    if entry.source.split("huggingface.co/")[1].split("/blob")[0].replace("/", "__") != path.stem:
        pytest.skip("an alias: the named checkpoint has the geometry of another row")
    full, ours = _fields(load(json.loads(path.read_text()))), _fields(load(entry.name))
    for key in ("max_context_tokens", "max_context_key"):
        if full[key] is None:
            del full[key], ours[key]
    assert ours == full


@pytest.mark.parametrize("name", [n for n in names() if "/" not in n])
def test_a_command_serves_the_model_that_was_named_or_says_that_its_id_is_unknown(name: str) -> None:
    from warmset import api

    written = api.launch(name, tier="100GiB")
    served = written.argv[2]
    unknown = [note for note in written.notes if "Hub id of exactly that model is not known" in note]
    if "/" in served:
        assert served.rpartition("/")[2].lower() == name
        assert unknown == []
    else:
        assert served == name
        assert len(unknown) == 1


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("deepseek-v3.1", "deepseek-ai/DeepSeek-V3.1"),
        ("qwq-32b", "Qwen/QwQ-32B"),
        ("deepseek-r1-distill-llama-70b", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"),
        ("glm-4.7", "zai-org/GLM-4.7"),
        ("kimi-k2.5", "moonshotai/Kimi-K2.5"),
        ("minimax-m2", "MiniMaxAI/MiniMax-M2"),
        ("gemma-4-31b-it", "google/gemma-4-31B-it"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-R1-0528"),
        ("qwen3-coder-30b-a3b", "qwen3-coder-30b-a3b"),
        ("mistral-small-3.1", "mistral-small-3.1"),
        ("no-such-model", "no-such-model"),
    ],
)
def test_the_hub_id_is_that_of_the_name(name: str, served: str) -> None:
    assert hub_id(name) == served


def test_a_name_without_an_id_offers_those_that_it_may_stand_for() -> None:
    assert ids_to_choose("qwen3-coder-30b-a3b") == ("Qwen/Qwen3-Coder-30B-A3B-Instruct",)
    assert ids_to_choose("mistral-large-2411") == ("mistralai/Mistral-Large-Instruct-2411",)
    assert ids_to_choose("mistral-small-3") == ()
    assert ids_to_choose("qwq-32b") is None
    assert ids_to_choose("a/b") is None
