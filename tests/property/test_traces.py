"""Traces keep their structure through every format, and content ids chain as a dictionary would chain them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmset.traces import Trace, load, read, stream
from warmset.traces.assemble import broken_chains, densify
from warmset.traces.chaining import chain, chain_tokens
from warmset.traces.info import info, tokens_per_access
from warmset.traces.options import ReadOptions
from warmset.traces.writing import write

quick = settings(max_examples=60, deadline=None)


@st.composite
def traces(draw: st.DrawFn) -> list[dict[str, object]]:
    """Mooncake rows: random walks down a random tree of prefixes."""
    block = 16
    contents = draw(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=12))
    named = draw(st.booleans())
    rows: list[dict[str, object]] = []
    time = 0
    for path in contents:
        time += draw(st.integers(0, 5)) * 1000
        row: dict[str, object] = {
            "timestamp": time,
            "input_length": block * len(path) - draw(st.integers(0, block - 1)),
            "hash_ids": chain(path),
            "block_size": block,
        }
        if draw(st.booleans()):
            row["output_length"] = draw(st.integers(0, 9))
        if named:
            row["session_id"] = f"s{draw(st.integers(0, 2))}"
        rows.append(row)
    return rows


def put(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def same(a: Trace, b: Trace) -> bool:
    return (
        np.array_equal(a.block_ids, b.block_ids)
        and np.array_equal(a.offsets, b.offsets)
        and np.array_equal(a.arrival_seconds, b.arrival_seconds, equal_nan=True)
        and np.array_equal(a.input_tokens, b.input_tokens)
        and np.array_equal(a.output_tokens, b.output_tokens)
        and (a.session_ids is None) == (b.session_ids is None)
        and (a.session_ids is None or np.array_equal(a.session_ids, b.session_ids))
        and np.array_equal(tokens_per_access(a), tokens_per_access(b))
        and (a.block_tokens, a.unique_blocks) == (b.block_tokens, b.unique_blocks)
    )


@quick
@given(
    rows=traces(), form=st.sampled_from(["mooncake", "warmset"]), suffix=st.sampled_from(["", ".gz", ".zst"])
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], form: str, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("t")
    options = ReadOptions(time_unit="ms")
    trace = read(put(folder / "a.jsonl", rows), options).trace
    write(trace, folder / f"b.jsonl{suffix}", form)
    again = read(f"{form}:{folder}/b.jsonl{suffix}", options if form == "mooncake" else None).trace
    assert same(trace, again)


@quick
@given(rows=traces())
def test_ids_are_dense_chained_and_equal_where_prefixes_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    trace = load(put(tmp_path_factory.mktemp("t") / "a.jsonl", rows), time_unit="ms")
    latest = np.maximum.accumulate(trace.block_ids)
    assert trace.block_ids[0] == 0
    assert np.all(np.diff(latest) <= 1)
    assert int(latest[-1]) == trace.unique_blocks - 1
    prefixes: dict[tuple[int, ...], int] = {}
    for request in range(trace.requests):
        blocks = trace.block_ids[trace.offsets[request] : trace.offsets[request + 1]].tolist()
        for depth, block in enumerate(blocks):
            assert prefixes.setdefault(tuple(blocks[: depth + 1]), block) == block
    assert len(set(prefixes.values())) == len(prefixes)


@quick
@given(st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=20))
def test_chaining_equals_a_dictionary_of_prefixes(requests: list[list[int]]) -> None:
    numbers: dict[tuple[int, ...], int] = {}
    naive = [numbers.setdefault(tuple(r[: i + 1]), len(numbers)) for r in requests for i in range(len(r))]
    labels = [label for request in requests for label in chain(request)]
    assert densify(np.array(labels, np.uint64))[0].tolist() == naive
    tokens = [t for request in requests for t in chain_tokens(request, 1)]
    assert densify(np.array(tokens, np.uint64))[0].tolist() == naive


@quick
@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1)), max_size=40))
def test_densify_numbers_by_first_appearance(labels: list[int]) -> None:
    ids, first = densify(np.array(labels, np.uint64))
    numbers: dict[int, int] = {}
    assert ids.tolist() == [numbers.setdefault(label, len(numbers)) for label in labels]
    assert first.tolist() == [labels.index(label) for label in numbers]


@quick
@given(st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=10))
def test_broken_chains_are_found_as_a_dictionary_finds_them(requests: list[list[int]]) -> None:
    flat = np.array([b for r in requests for b in r], np.uint64)
    offsets = np.concatenate(([0], np.cumsum([len(r) for r in requests]))).astype(np.int64)
    ids, first = densify(flat)
    parents: dict[int, int] = {}
    expected = []
    for request in requests:
        parent = -1
        for block in request:
            expected.append(parents.setdefault(block, parent) != parent)
            parent = block
    assert broken_chains(ids, offsets, first).tolist() == expected


@quick
@given(rows=traces(), size=st.integers(1, 5))
def test_streams_join_to_the_whole(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], size: int
) -> None:
    path = put(tmp_path_factory.mktemp("t") / "a.jsonl", rows)
    options = ReadOptions(time_unit="ms")
    whole = read(path, options).trace
    parts = list(stream(path, size, options))
    joined = np.concatenate([p.block_ids for p in parts]).view(np.uint64)
    assert np.array_equal(densify(joined)[0], whole.block_ids)
    assert np.array_equal(np.concatenate([p.arrival_seconds for p in parts]), whole.arrival_seconds)


@quick
@given(rows=traces())
def test_reuse_by_kind_equals_a_naive_count(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]
) -> None:
    trace = load(put(tmp_path_factory.mktemp("t") / "a.jsonl", rows), time_unit="ms")
    facts = info(trace)
    if facts.sessions_from != "trace" or trace.session_ids is None:
        return
    tokens = tokens_per_access(trace)
    readers: dict[int, set[int]] = {}
    same_session = shared = 0
    for request in range(trace.requests):
        session = int(trace.session_ids[request])
        for at in range(trace.offsets[request], trace.offsets[request + 1]):
            before = readers.setdefault(int(trace.block_ids[at]), set())
            if session in before:
                same_session += int(tokens[at])
            elif before:
                shared += int(tokens[at])
            before.add(session)
    assert (facts.same_session_tokens, facts.shared_prefix_tokens) == (same_session, shared)
    assert facts.ceiling_hit_tokens == same_session + shared


@quick
@given(
    st.binary(max_size=200), st.sampled_from(["", "mooncake:", "warmset:", "kv-events:", "openai:", "csv:"])
)
def test_no_bytes_crash_a_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes, form: str) -> None:
    from warmset.errors import InputError

    path = tmp_path_factory.mktemp("t") / "a"
    for content in (data, gzip.compress(data), gzip.compress(data)[:-5], b'{"hash_ids":' + data):
        path.write_bytes(content)
        for skip_bad in (False, True):
            try:
                load(f"{form}{path}", block_tokens=16, skip_bad=skip_bad)
            except InputError as error:
                assert error.message


@quick
@given(rows=traces(), form=st.sampled_from(["mooncake", "warmset"]))
def test_anonymised_structure_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], form: str
) -> None:
    from warmset.traces.anonymise import write_anonymised

    folder = tmp_path_factory.mktemp("t")
    options = ReadOptions(time_unit="ms")
    trace = read(put(folder / "a.jsonl", rows), options).trace
    write_anonymised(trace, folder / "b.jsonl", form)
    assert same(trace, read(f"{form}:{folder}/b.jsonl", options if form == "mooncake" else None).trace)
