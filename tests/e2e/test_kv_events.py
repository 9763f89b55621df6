"""vLLM's own event classes, encoded as its publisher encodes them, are read as what they say."""

from pathlib import Path

import pytest

from warmset.traces import read

pytestmark = pytest.mark.e2e


def test_batches_that_vllm_encodes(tmp_path: Path) -> None:
    msgspec = pytest.importorskip("msgspec")
    pytest.importorskip("warmset.vllm.startup")
    events = pytest.importorskip("vllm.distributed.kv_events")

    def stored(hashes: list[object], parent: object, medium: str = "GPU") -> object:
        return events.BlockStored(
            block_hashes=hashes, parent_block_hash=parent, token_ids=[1] * 16 * len(hashes), block_size=16,
            lora_id=None, medium=medium, lora_name=None,
        )  # fmt: skip

    a, b, c = (bytes([n]) * 32 for n in (1, 2, 3))
    batches = [
        events.KVEventBatch(ts=10.0, events=[stored([a, b], None), stored([a, b], None, "CPU")]),
        events.KVEventBatch(ts=11.0, events=[stored([c], a), events.BlockRemoved([b], "GPU")]),
        events.KVEventBatch(ts=12.0, events=[events.AllBlocksCleared()], data_parallel_rank=0),
    ]
    records = [msgspec.msgpack.Encoder().encode(batch) for batch in batches]
    path = tmp_path / "events"
    path.write_bytes(b"".join(len(r).to_bytes(4, "big") + r for r in records))
    trace = read(path).trace
    assert trace.block_ids.tolist() == [0, 1, 0, 2]
    assert trace.offsets.tolist() == [0, 2, 4]
    assert trace.arrival_seconds.tolist() == [0, 1]
    assert trace.block_tokens == 16
