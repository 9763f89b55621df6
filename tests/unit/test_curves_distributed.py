"""Partitioned runs merge exactly: a stream, shards and a cluster give one and the same sampled curve."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from warmset.curves.distributed import distributed_curve
from warmset.curves.exact import lru_curve
from warmset.curves.follow import FollowedStack
from warmset.curves.record import Curve
from warmset.curves.sampled import sampled_curve
from warmset.curves.shards import list_shards, stream_shards
from warmset.errors import InputError
from warmset.traces import ReadOptions, load, stream

OPTIONS = ReadOptions(block_tokens=16)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(7)
    path = tmp_path_factory.mktemp("trace") / "whole.jsonl"
    lengths = np.zeros(60, dtype=int)
    lines = []
    for number in range(3000):
        session = int(rng.integers(60))
        lengths[session] += int(rng.integers(1, 9))
        ids = [0, 1, 2, *(10_000 * (session + 1) + i for i in range(lengths[session]))]
        lines.append(
            json.dumps(
                {
                    "timestamp": number,
                    "input_length": 16 * len(ids) - int(rng.integers(16)),
                    "output_length": 5,
                    "hash_ids": ids,
                }
            )
        )
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(whole: Path) -> Path:
    lines = whole.read_text().splitlines(keepends=True)
    shards = whole.parent / "shards"
    shards.mkdir()
    for number, (a, b) in enumerate(pairwise([0, 700, 701, 1900, 3000])):
        (shards / f"part-{number:03}.jsonl").write_text("".join(lines[a:b]))
    return shards


def same(a: Curve, b: Curve) -> bool:
    return (
        np.array_equal(a.cumulative_hit_tokens, b.cumulative_hit_tokens)
        and a.sampling == b.sampling
        and (a.total_tokens, a.prompt_tokens, a.requests) == (b.total_tokens, b.prompt_tokens, b.requests)
    )


def test_parts_of_any_size_give_the_same_curve(whole: Path, folder: Path) -> None:
    reference = sampled_curve(stream(f"mooncake:{whole}", options=OPTIONS), ratio=0.1, seed=3)
    assert reference.sampling is not None
    assert reference.sampling.sampled_blocks > 500
    for size in (17, 1000):
        parts = stream(f"mooncake:{whole}", requests_per_chunk=size, options=OPTIONS)
        assert same(sampled_curve(parts, ratio=0.1, seed=3), reference)
    shards = list_shards(f"mooncake:{folder}")
    assert len(shards) == 4
    assert same(sampled_curve(stream_shards(shards, OPTIONS), ratio=0.1, seed=3), reference)


def test_a_local_cluster_of_two_workers_gives_the_same_curve(whole: Path, folder: Path) -> None:
    pytest.importorskip("distributed")
    shards = list_shards(f"mooncake:{folder}/*.jsonl")
    found = distributed_curve(shards, ratio=0.1, seed=3, options=OPTIONS, workers=2)
    assert same(found, sampled_curve(stream(f"mooncake:{whole}", options=OPTIONS), ratio=0.1, seed=3))
    warm = distributed_curve(shards, ratio=1, seed=3, options=OPTIONS, workers=2, warmup_ratio=0.5)
    exact = lru_curve(load(f"mooncake:{whole}", block_tokens=16), warmup_ratio=0.5)
    assert warm.total_tokens == exact.total_tokens
    for capacity in range(0, exact.ceiling_capacity_blocks + 2, 37):
        assert warm.hit_tokens_at(capacity) == exact.hit_tokens_at(capacity)


def test_parquet_shards(whole: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rows = [json.loads(line) for line in whole.read_text().splitlines()[:1500]]
    for number, part in enumerate((rows[:600], rows[600:])):
        parquet.write_table(
            pa.table(
                {
                    "time": [float(r["timestamp"]) for r in part],
                    "input_tokens": [r["input_length"] for r in part],
                    "output_tokens": [r["output_length"] for r in part],
                    "blocks": [r["hash_ids"] for r in part],
                }
            ),
            tmp_path / f"{number}.parquet",
        )
    short = tmp_path.parent / "short.jsonl"
    short.write_text("\n".join(json.dumps(r) for r in rows) + "\n")
    shards = stream_shards(list_shards(f"parquet:{tmp_path}"), ReadOptions(block_tokens=16, time_unit="s"))
    one = sampled_curve(stream(f"mooncake:{short}", options=OPTIONS), ratio=0.2)
    assert same(sampled_curve(shards, ratio=0.2), one)


def test_shards_in_an_object_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }.items():
            monkeypatch.setenv(name, value)
        import httpx
        from obstore.store import from_url

        httpx.put(f"http://{host}:{port}/logs").raise_for_status()
        store = from_url("s3://logs")
        for path in folder.iterdir():
            store.put(f"day/{path.name}", path)
        shards = list_shards("mooncake:s3://logs/day/")
        assert [s.rpartition("/")[2] for s in shards] == sorted(p.name for p in folder.iterdir())
        local = sampled_curve(stream_shards(list_shards(f"mooncake:{folder}"), OPTIONS), ratio=0.1)
        assert same(sampled_curve(stream_shards(shards, OPTIONS), ratio=0.1), local)
        assert same(distributed_curve(shards, ratio=0.1, options=OPTIONS, workers=2), local)
        with pytest.raises(InputError, match=r"cannot list|no trace files"):
            list_shards("mooncake:s3://no-such-bucket/")
    finally:
        server.stop()


def test_what_is_wrong_in_a_shard_is_said(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    good = next(folder.iterdir()).read_text()
    (tmp_path / "a.jsonl").write_text(good)
    (tmp_path / "b.jsonl").write_text('{"timestamp": 1, "hash_ids": "no"}\n')
    with pytest.raises(InputError, match=r"b\.jsonl"):
        distributed_curve(list_shards(f"mooncake:{tmp_path}"), ratio=0.5, options=OPTIONS, workers=1)


def test_no_files_and_no_scheduler(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no trace files"):
        list_shards(f"mooncake:{tmp_path}/*.jsonl")
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="`nonsense`"):
        distributed_curve(list_shards(f"mooncake:{folder}"), options=OPTIONS, scheduler="nonsense")


def test_what_is_not_installed_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("distributed", "obstore.store"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError) as dask:
        distributed_curve(list_shards(f"mooncake:{folder}"), options=OPTIONS)
    with pytest.raises(InputError) as store:
        list_shards("s3://logs/")
    for error in (dask, store):
        assert error.value.hint == "pip install 'warmset[distributed]'"


def test_memory_is_bounded_by_forgetting_the_least_recent(whole: Path) -> None:
    trace = load(f"mooncake:{whole}", block_tokens=16)
    exact = lru_curve(trace)
    bounded = sampled_curve(trace, ratio=1, max_blocks=trace.unique_blocks // 2)
    assert bounded.sampling is not None
    assert not bounded.sampling.complete
    # Within what is remembered nothing changes.
    for capacity in range(0, trace.unique_blocks // 4, 97):
        assert bounded.hit_tokens_at(capacity) == exact.hit_tokens_at(capacity)


def test_slots_and_table_grow_without_changing_a_figure(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warmset.curves.follow._MIN_SLOTS", 8)
    trace = load(f"mooncake:{whole}", block_tokens=16)
    exact = lru_curve(trace)
    sampled = sampled_curve(trace, ratio=1)
    assert np.array_equal(sampled.cumulative_hit_tokens, exact.cumulative_hit_tokens)
    stack = FollowedStack(1, None, 100)
    assert stack.blocks == 0
