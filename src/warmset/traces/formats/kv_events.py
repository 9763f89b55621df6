"""vLLM KV events, captured from the ZMQ publisher.

A capture is a run of batches `[time, events, data_parallel_rank]`, each as MessagePack behind its length (4
bytes, big-endian), or as one JSON line. An event is a map `{"type": "BlockStored", ...}` or the older array
`["BlockStored", ...]`. Hashes are integers, bytes, or text.

Events report stores and evictions, not hits: a request whose blocks are all resident stores nothing and
leaves no trace. What is read here are the requests that stored something, so the reuse found is a lower bound.
Source: vllm/distributed/kv_events.py (0.32).
"""

import json
from collections.abc import Iterator
from typing import Any

from warmset.errors import InputError
from warmset.traces import fields
from warmset.traces.msgpack import unpack
from warmset.traces.options import ReadOptions
from warmset.traces.rows import BadRow, Problems, Rows, RowsBuilder
from warmset.traces.source import MAX_LINE_BYTES, Source

TIME_UNIT = "s"
# A store that continues the last block of a request within this time is the same request (prefill in
# chunks, or generation); later, it is the next turn.
SAME_REQUEST_SECONDS = 10.0
_FIELDS = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name")


def read(source: Source, options: ReadOptions, problems: Problems) -> Iterator[Rows]:
    """One request per run of stores that continue each other; its blocks include all ancestors."""
    problems.note("KV events report stores and evictions, not hits: reuse is a lower bound")
    parents: dict[int, int | None] = {}
    # Requests as [record, first time, last time, last block], found by their last block.
    requests: list[list[Any]] = []
    open_at: dict[int, list[Any]] = {}
    size: int | None = options.block_tokens
    for number, batch in _batches(source, problems):
        try:
            time, events = _batch(batch)
            stores = [store for event in events if (store := _store(event)) is not None]
        except BadRow as reason:
            problems.bad(number, str(reason))
            continue
        for hashes, parent, block_size in stores:
            if size not in (None, block_size):
                raise InputError(
                    f"`{problems.path}` record {number}: block size `{block_size}`, not `{size}`"
                )
            size = block_size
            if parent is not None and parent not in parents:
                parents[parent] = None
                problems.note("some stores follow blocks from before the capture: their prefix is cut short")
            request = open_at.pop(parent, None) if parent is not None else None
            if request is None or time - request[2] > SAME_REQUEST_SECONDS:
                request = [number, time, time, None]
                requests.append(request)
            before = parent
            for block in hashes:
                parents.setdefault(block, before)
                before = block
            request[2], request[3] = time, before
            if before is not None:
                open_at[before] = request
    rows = RowsBuilder(size)
    for number, time, _, last in requests:
        chain = _ancestors(last, parents)
        rows.add(number, chain, time, len(chain) * (size or 0), -1)
    yield rows.build()


def _ancestors(block: int | None, parents: dict[int, int | None]) -> list[int]:
    chain: list[int] = []
    seen: set[int] = set()
    while block is not None and block not in seen:
        seen.add(block)
        chain.append(block)
        block = parents[block]
    return chain[::-1]


def _batches(source: Source, problems: Problems) -> Iterator[tuple[int, Any]]:
    if source.head(64).lstrip(b"\xef\xbb\xbf")[:1] in (b"[", b"{"):
        for first_line, chunk in source.line_chunks():
            for number, line in enumerate(chunk.split(b"\n"), first_line):
                if not line.strip():
                    continue
                try:
                    yield number, json.loads(line)
                except (ValueError, RecursionError):
                    problems.bad(number, "not valid JSON, or cut short")
        return
    number = 0
    with source.open() as stream:
        while prefix := stream.read(4):
            number += 1
            length = int.from_bytes(prefix, "big")
            data = stream.read(length) if len(prefix) == 4 and length <= MAX_LINE_BYTES else b""
            # No record is empty: a run of zeros is no capture, and would be millions of faults.
            if len(prefix) < 4 or not data or len(data) < length:
                problems.bad(number, "the record is cut short or its length is wrong")
                return
            try:
                yield number, unpack(data)
            except (ValueError, UnicodeDecodeError) as error:
                problems.bad(number, f"not MessagePack: {error}")


def _batch(batch: Any) -> tuple[float, list[Any]]:
    if isinstance(batch, dict):
        batch = [batch.get("ts"), batch.get("events")]
    if not isinstance(batch, list) or len(batch) < 2 or not isinstance(batch[1], list):
        raise BadRow("not a batch of events")
    return fields.time({"ts": batch[0]}, "ts"), batch[1]


def _store(event: Any) -> tuple[list[int], int | None, int] | None:
    """Hashes, parent and block size of a store on the device; None for other events."""
    if isinstance(event, list) and event and isinstance(event[0], str):
        event = {"type": event[0], **dict(zip(_FIELDS, event[1:], strict=False))}
    if not isinstance(event, dict) or not isinstance(event.get("type"), str):
        raise BadRow("an event is neither a map nor an array with a type")
    device = event.get("medium") in (None, "GPU", "gpu")
    if event["type"] != "BlockStored" or not device or event.get("group_idx") not in (None, 0):
        return None
    hashes, parent = event.get("block_hashes"), event.get("parent_block_hash")
    if not isinstance(hashes, list):
        raise BadRow("`block_hashes` is not a list")
    size = fields.count(event, "block_size")
    if not 0 < size < 2**31:
        raise BadRow("`block_size` is not a block size")
    return [_hash(h) for h in hashes], None if parent is None else _hash(parent), size


def _hash(value: Any) -> int:
    return fields.label(value.hex() if isinstance(value, bytes) else value)
