"""Laws that every geometry obeys, whatever the numbers."""

import json
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmset.errors import InputError
from warmset.geometry import KV_DTYPES, Footprint, Geometry, from_config, load, uniform

quick = settings(deadline=None, max_examples=40)
sizes = st.tuples(
    st.integers(1, 128), st.sampled_from([1, 2, 4, 8, 16, 32]), st.sampled_from([64, 80, 96, 128, 256])
)

MIXED = {
    "gemma": {
        "model_type": "gemma2",
        "num_hidden_layers": 26,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 2048,
        "sliding_window": 1000,
    },
    "latent": {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "hidden_size": 7168,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    },
    "delta": {
        "model_type": "qwen3_next",
        "num_hidden_layers": 48,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "hidden_size": 2048,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    },
    "chunked": {
        "model_type": "llama4_text",
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 5120,
        "attention_chunk_size": 8192,
    },
}


@cache
def model(name: str) -> Geometry:
    # No maximum, so that any context may be asked for.
    return from_config({**MIXED[name], "max_position_embeddings": 2**30})


mixed = st.sampled_from(sorted(MIXED)).map(model)


@quick
@given(sizes, st.integers(1, 10**7))
def test_uniform_is_the_naive_formula(size: tuple[int, int, int], context: int) -> None:
    layers, heads, dim = size
    footprint = uniform(layers, heads, dim).footprint(kv_dtype="fp16")
    naive = 2 * layers * heads * dim * 2
    assert footprint.bytes_per_token == naive
    assert footprint.bytes_per_session(context) == naive * context
    assert footprint.pool_bytes_per_session(context) == naive * -(-context // 16) * 16
    assert (
        footprint.bounded_bytes_per_session
        == footprint.constant_bytes_per_session
        == footprint.state_copies
        == 0
    )


@quick
@given(mixed, st.integers(1, 10**6), st.integers(0, 10**5))
def test_bytes_are_monotone_in_context(geometry: Geometry, context: int, more: int) -> None:
    footprint = geometry.footprint()
    assert footprint.bytes_per_session(context) <= footprint.bytes_per_session(context + more)
    assert footprint.pool_bytes_per_session(context) <= footprint.pool_bytes_per_session(context + more)
    assert footprint.bytes_per_session(context) <= footprint.pool_bytes_per_session(context)


@quick
@given(mixed, st.sampled_from([1, 2, 4, 8]))
def test_tp_splits_add_up_with_copies(geometry: Geometry, tp: int) -> None:
    """What can be split adds up to the whole; a latent is copied to every rank."""
    whole, split = geometry.footprint(), geometry.footprint(tp=tp)
    copies = tp if geometry.has_latent else 1
    assert split.bytes_per_token == copies * whole.bytes_per_token
    assert split.bounded_bytes_per_session == copies * whole.bounded_bytes_per_session
    assert split.bytes_per_token == tp * split.per_rank.bytes_per_token


@quick
@given(st.integers(1, 64), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8, 16, 32, 64]))
def test_heads_are_replicated_when_there_are_fewer_than_ranks(layers: int, heads: int, tp: int) -> None:
    footprint = uniform(layers, heads, 128).footprint(tp=tp)
    assert footprint.bytes_per_token == uniform(layers, max(heads, tp), 128).footprint().bytes_per_token


@quick
@given(mixed, st.integers(1, 26), st.sampled_from([1, 2]))
def test_pipeline_ranks_sum_to_the_whole(geometry: Geometry, pp: int, tp: int) -> None:
    whole, parts = geometry.footprint(tp=tp), geometry.footprint(tp=tp, pp=pp)
    assert len(parts.ranks) == pp
    assert sum(rank.layers for rank in parts.ranks) == geometry.layers
    assert parts.bytes_per_token == whole.bytes_per_token
    assert parts.bounded_bytes_per_session == whole.bounded_bytes_per_session
    assert parts.constant_bytes_per_session == whole.constant_bytes_per_session
    assert parts.bytes_per_session(5000) == whole.bytes_per_session(5000)
    assert parts.per_rank.bytes_per_token == max(rank.bytes_per_token for rank in parts.ranks)


@quick
@given(st.sampled_from([2, 4, 8]))
def test_context_parallel_ranks_share_what_they_would_copy(dcp: int) -> None:
    whole, shared = model("latent").footprint(tp=8), model("latent").footprint(tp=8, dcp=dcp)
    assert shared.bytes_per_token * dcp == whole.bytes_per_token
    assert shared.block_tokens == whole.block_tokens * dcp


@quick
@given(mixed, st.integers(2**30, 2**40), st.integers(1, 10**5), st.integers(0, 1))
def test_a_pool_holds_what_its_sessions_take(
    geometry: Geometry, kv_bytes: int, context: int, reserved: int
) -> None:
    footprint = geometry.footprint()
    tokens = footprint.pool_tokens(kv_bytes, context, reserved_blocks=reserved)
    assert tokens >= 0
    assert tokens * footprint.pool_bytes_per_session(context) <= kv_bytes * context
    assert footprint.pool_tokens(2 * kv_bytes, context, reserved_blocks=reserved) >= tokens
    blocks = footprint.usable_blocks(kv_bytes, reserved)
    assert footprint.usable_blocks(footprint.kv_bytes_for(blocks + reserved), reserved) == blocks
    assert footprint.kv_bytes_for(blocks + reserved) <= kv_bytes


@quick
@given(mixed)
def test_the_parts_add_up_to_the_totals(geometry: Geometry) -> None:
    footprint = geometry.footprint(tp=2)
    assert (
        sum((footprint.total_of(g) for g in footprint.groups if g.grows), Fraction(0))
        == footprint.bytes_per_token
    )
    bounded = sum(footprint.total_of(g) * (g.window_tokens or 0) for g in footprint.groups if g.window_tokens)
    assert bounded == footprint.bounded_bytes_per_session
    state = sum(footprint.total_of(g) for g in footprint.groups if g.kind == "state")
    assert state == footprint.constant_bytes_per_session
    assert len(footprint.formula) == len(footprint.groups)


@quick
@given(mixed, st.sampled_from(KV_DTYPES))
def test_every_dtype_is_computed_or_refused(geometry: Geometry, kv_dtype: str) -> None:
    try:
        footprint: Footprint = geometry.footprint(kv_dtype=kv_dtype)
    except InputError as error:
        assert f"`{kv_dtype}`" in error.message
        return
    assert 0 < footprint.bytes_per_token <= geometry.footprint(kv_dtype="bf16").bytes_per_token


@quick
@given(
    st.dictionaries(
        st.text(max_size=12),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=8
        ),
    )
)
def test_any_object_is_read_or_refused(config: dict[str, object]) -> None:
    for model_type in ("llama", "gemma3_text", "nemotron_h", "deepseek_v4", "qwen3_next", "unheard_of", None):
        try:
            from_config({"model_type": model_type, "num_hidden_layers": 2, **config})
        except InputError as error:
            assert error.hint


def test_every_config_survives_losing_any_key(shared: Path) -> None:
    """A real configuration with a key missing, or of a wrong type, is read or refused: never a crash."""
    for file in sorted((shared / "geometry" / "configs").glob("*.json"))[::15]:
        config = json.loads(file.read_text())
        inner = config.get("text_config", config)
        for key in list(inner):
            for value in (None, "x", -1, [], {}, True, 1.5):
                changed = {**inner, key: value}
                whole = {**config, "text_config": changed} if "text_config" in config else changed
                try:
                    from_config(whole).footprint()
                except InputError as error:
                    assert error.message  # refusing is one of the two right answers


def test_load_and_from_config_agree(shared: Path) -> None:
    file = shared / "geometry" / "configs" / "Qwen__Qwen3-4B.json"
    assert load(file).caches == from_config(json.loads(file.read_text())).caches


def test_no_model_is_free() -> None:
    with pytest.raises(InputError, match="keeps no KV cache"):
        from_config({"model_type": "bert", "num_hidden_layers": 12}).footprint()
