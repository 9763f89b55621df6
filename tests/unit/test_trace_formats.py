"""Every other format, on small files written by hand in the shape that its source documents."""

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warmset.errors import InputError
from warmset.traces import ReadOptions, load, read
from warmset.traces.detect import detect
from warmset.traces.msgpack import unpack
from warmset.traces.recorder_format import decode_header, decode_request, encode_header, encode_request
from warmset.traces.source import Source


def jsonl(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


# --- Bailian ---------------------------------------------------------------------------------------------


def bailian(chat: int, parent: int, time: float, ids: list[int]) -> dict[str, Any]:
    return {
        "chat_id": chat, "parent_chat_id": parent, "timestamp": time, "input_length": 16 * len(ids),
        "output_length": 5, "type": "text", "turn": 1, "hash_ids": ids,
    }  # fmt: skip


def test_bailian_content_ids_are_chained(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "t.jsonl",
        bailian(159, -1, 61.1, [1089, 1090, 6326]),
        bailian(160, 159, 62.0, [1089, 1090, 6326, 13148]),
        bailian(161, -1, 63.0, [7, 1090]),  # 1090 behind another prefix is another block
        bailian(162, 160, 64.0, [1089]),
    )
    assert detect(Source(path)) == "bailian"
    trace = load(path)
    assert trace.block_tokens == 16
    assert trace.block_ids.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 0]
    assert trace.session_ids is not None
    assert trace.session_ids.tolist() == [0, 0, 1, 0]
    assert trace.arrival_seconds[-1] == pytest.approx(2.9)


# --- RAG -------------------------------------------------------------------------------------------------


def test_ragpulse_components_are_chained_in_order(tmp_path: Path) -> None:
    def rag(time: str, documents: list[int], question: int) -> dict[str, Any]:
        return {
            "timestamp": time, "input_length": 1001, "output_length": 9, "session_id": "s",
            "hash_ids": {"sys_prompt": [1], "passages_ids": documents, "history": [], "user_input": [question]},
        }  # fmt: skip

    path = jsonl(tmp_path / "t.jsonl", rag("0", [5, 6], 8), rag("27", [6, 5], 8), rag("30", [5, 6], 9))
    assert detect(Source(path)) == "ragpulse"
    reading = read(path)
    assert reading.trace.block_ids.tolist() == [0, 1, 2, 3, 0, 4, 5, 6, 0, 1, 2, 7]
    assert reading.trace.tokens_per_block is not None
    assert reading.trace.tokens_per_block.tolist() == [251, 250, 250, 250] * 3
    assert "spread evenly" in reading.notes[0]
    assert reading.trace.arrival_seconds.tolist() == [0, 27, 30]


# --- agent sessions --------------------------------------------------------------------------------------


def agent(name: str, scope: str = "local") -> dict[str, Any]:
    def request(t: float, ids: list[int]) -> dict[str, Any]:
        return {"t": t, "type": "n", "in": 64 * len(ids) + 3, "out": 10, "hash_ids": ids}

    return {
        "id": name, "block_size": 64, "hash_id_scope": scope,
        "requests": [
            request(0.0, [1, 2]),
            {"t": 10.0, "type": "subagent", "requests": [request(0.0, [1, 9]), request(5.0, [1, 9, 10])]},
            request(12.0, [1, 2, 3]),
        ],
    }  # fmt: skip


@pytest.mark.parametrize(("scope", "unique"), [("local", 10), ("global", 5)])
def test_agent_sessions(tmp_path: Path, scope: str, unique: int) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.json").write_text(json.dumps(agent(name, scope), indent=1))
    assert detect(Source(folder)) == "agent"
    assert detect(Source(folder / "a.json")) == "agent"
    one, two = load(folder / "a.json"), load(folder)
    assert one.arrival_seconds.tolist() == [0, 10, 12, 15]  # inner times count from the sub-agent's start
    assert one.block_ids.tolist() == [0, 1, 0, 2, 0, 1, 3, 0, 2, 4]
    assert one.block_tokens == 64
    assert (two.requests, two.unique_blocks) == (8, unique)
    assert two.session_ids is not None
    assert sorted(two.session_ids.tolist()) == [0] * 4 + [1] * 4


def test_agent_sessions_one_per_line_or_as_a_list(tmp_path: Path) -> None:
    lines = jsonl(tmp_path / "a.jsonl", agent("a"), agent("b"))
    listed = tmp_path / "b.json"
    listed.write_text(json.dumps([agent("a"), agent("b")]))
    assert np.array_equal(load(lines).block_ids, load(listed).block_ids)


# --- own format ------------------------------------------------------------------------------------------


def test_recorder_lines_round_trip(tmp_path: Path) -> None:
    header = encode_header(16, salted=True, server="vllm 0.32")
    line = encode_request(1.5, 40, None, [2**64 - 1, 0], hit_device_tokens=16, session="x")
    assert decode_header(header).about == {"server": "vllm 0.32"}
    request = decode_request(line)
    assert (request.arrival_seconds, request.input_tokens, request.output_tokens) == (1.5, 40, None)
    assert (request.blocks, request.hit_device_tokens, request.session) == ((2**64 - 1, 0), 16, "x")
    packed = base64.b64encode(struct.pack("<2Q", 2**64 - 1, 0)).decode()
    assert json.loads(line)["blocks"] == packed
    assert decode_request(b'{"t":0,"in":1,"blocks":[3]}').blocks == (3,)
    path = tmp_path / "t.jsonl"
    path.write_bytes(header + line + encode_request(2.0, 40, 7, struct.pack("<2Q", 2**64 - 1, 5)))
    assert detect(Source(path)) == "warmset"
    trace = load(path)
    assert trace.block_ids.tolist() == [0, 1, 0, 2]
    assert trace.output_tokens.tolist() == [-1, 7]


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b'{"in":-1,"blocks":[]}', b'{"in":1}', b'{"in":1,"blocks":"AAA="}', b'{"in":1,"blocks":[-1]}',
     b'{"in":1,"blocks":[1],"tokens":[]}', b'{"in":1,"blocks":[],"t":"x"}', b'{"in":true,"blocks":[]}',
     b'{"in":1,"blocks":"\xc3\xa4"}', b"[" * 50_000],
)  # fmt: skip
def test_recorder_lines_that_are_wrong(line: bytes) -> None:
    with pytest.raises(InputError):
        decode_request(line)


def test_a_recording_needs_its_header(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(encode_request(0, 16, 1, [1]))
    with pytest.raises(InputError, match=r"line 1: not a `warmset\.trace/1` header"):
        load(f"warmset:{path}")


def test_recorder_format_needs_only_the_standard_library() -> None:
    import subprocess
    import sys

    code = (
        "import sys, warmset.traces.recorder_format; print('numpy' in sys.modules, 'pyarrow' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["False", "False"]


# --- KV events -------------------------------------------------------------------------------------------


def pack(value: Any) -> bytes:
    """A second, independent MessagePack writer for tests; wide forms only."""
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcf" + struct.pack(">Q", value) if value >= 0 else b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
    if isinstance(value, list):
        assert len(value) < 16
        return bytes([0x90 | len(value)]) + b"".join(map(pack, value))
    return b"\xdf" + struct.pack(">I", len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())


def stored(hashes: list[Any], parent: Any, *, form: str) -> Any:
    tokens = list(range(min(9, 4 * len(hashes))))
    if form == "array":
        return ["BlockStored", hashes, parent, tokens, 4, None, "GPU", None]
    return {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent, "token_ids": tokens,
            "block_size": 4, "lora_id": None, "medium": "GPU", "lora_name": None, "group_idx": 0}  # fmt: skip


@pytest.mark.parametrize("form", ["map", "array"])
@pytest.mark.parametrize("container", ["msgpack", "jsonl"])
def test_kv_events(tmp_path: Path, form: str, container: str) -> None:
    removed = (
        ["BlockRemoved", [3], "GPU"] if form == "array" else {"type": "BlockRemoved", "block_hashes": [3]}
    )
    batches = [
        [100.0, [stored([1, 2], None, form=form)], 0],
        [100.5, [stored([3], 2, form=form)], 0],  # generation goes on: the same request
        [101.0, [stored([8], 1, form=form), removed], 0],  # branches off after block 1
        [200.0, [stored([4], 3, form=form)], 0],  # much later: the next turn
        [201.0, [["AllBlocksCleared"] if form == "array" else {"type": "AllBlocksCleared"}], 0],
    ]
    path = tmp_path / "events"
    if container == "msgpack":
        records = [pack(b) for b in batches]
        path.write_bytes(b"".join(struct.pack(">I", len(r)) + r for r in records))
    else:
        jsonl(path, *batches)
    assert detect(Source(path)) == "kv-events"
    reading = read(path)
    assert reading.trace.block_ids.tolist() == [0, 1, 2, 0, 3, 0, 1, 2, 4]
    assert reading.trace.offsets.tolist() == [0, 3, 5, 9]
    assert reading.trace.arrival_seconds.tolist() == [0, 1, 100]
    assert reading.trace.block_tokens == 4
    assert "not hits" in reading.notes[0]


def test_kv_events_with_bytes_and_a_late_start(tmp_path: Path) -> None:
    record = pack([1.0, [stored([b"\x02" * 32], b"\x01" * 32, form="map")], 0])
    path = tmp_path / "events"
    path.write_bytes(struct.pack(">I", len(record)) + record)
    reading = read(f"kv-events:{path}")
    assert reading.trace.accesses == 2
    assert any("before the capture" in note for note in reading.notes)
    path.write_bytes(struct.pack(">I", len(record)) + record[:-1])
    with pytest.raises(InputError, match="cut short"):
        load(f"kv-events:{path}")


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"\x05", 5), (b"\xff", -1), (b"\xcc\xff", 255), (b"\xd1\xff\xfe", -2), (b"\xca\x3f\x80\x00\x00", 1.0),
        (b"\xa2hi", "hi"), (b"\xc4\x01a", b"a"), (b"\x92\x01\xc0", [1, None]), (b"\x81\xa1a\xc3", {"a": True}),
        (b"\xdc\x00\x01\x07", [7]), (b"\xde\x00\x01\xa1k\xc2", {"k": False}), (b"\xd9\x01x", "x"),
    ],
)  # fmt: skip
def test_msgpack_values_of_the_specification(data: bytes, value: Any) -> None:
    assert unpack(data) == value


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\xc7\x01\x01\x01", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x92\x01", b"\x01\x01",
     b"\x91" * 1000, b"\xa1\xff", b"\x81\x90\x01"],
)  # fmt: skip
def test_msgpack_that_is_wrong(data: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(data)


# --- text ------------------------------------------------------------------------------------------------


def chat(*turns: str) -> list[dict[str, str]]:
    return [{"role": "user" if i % 2 == 0 else "assistant", "content": t} for i, t in enumerate(turns)]


def test_openai_logs_by_bytes(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "t.jsonl",
        {"timestamp": 1_700_000_000.0, "messages": chat("a" * 64), "usage": {"completion_tokens": 4}},
        {"timestamp": 1_700_000_005.0, "messages": chat("a" * 64, "b" * 32, "c"), "user": "u"},
        {"timestamp": 1_700_000_006.0, "body": {"prompt": "x" * 20, "model": "m"}},
    )
    assert detect(Source(path)) == "openai"
    reading = read(path)
    trace = reading.trace
    assert trace.input_tokens.tolist()[2] == 20
    assert trace.output_tokens.tolist() == [4, -1, -1]
    first, second = trace.block_ids[: trace.offsets[1]], trace.block_ids[trace.offsets[1] : trace.offsets[2]]
    assert len(first) == trace.input_tokens[0] // 16
    assert second[: len(first)].tolist() == first.tolist()
    assert trace.arrival_seconds.tolist() == [0, 5, 6]
    assert any("per byte" in note for note in reading.notes)


def test_openai_logs_with_iso_times_and_parts(tmp_path: Path) -> None:
    part = [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    path = jsonl(
        tmp_path / "t.jsonl",
        {"ts": "2026-01-01T00:00:00Z", "request": {"messages": [{"role": "user", "content": part}]}},
        {"ts": "2026-01-01T00:00:02+00:00", "request": {"messages": [{"role": "user", "content": "hi"}]}},
    )
    assert load(path).arrival_seconds.tolist() == [0, 2]


def test_text_by_a_tokenizer_file(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"the": 0, "cat": 1, "[UNK]": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    path = jsonl(tmp_path / "t.jsonl", {"timestamp": 0, "prompt": "the cat " * 10})
    trace = load(path, tokenizer=tmp_path / "tokenizer.json", block_tokens=8)
    assert (trace.input_tokens.tolist(), trace.accesses) == ([20], 2)
    half = jsonl(tmp_path / "half.jsonl", {"timestamp": 0, "prompt": "the \ud800 cat"})
    assert load(half, tokenizer=tmp_path / "tokenizer.json").requests == 1
    with pytest.raises(InputError, match="no tokenizer file"):
        load(path, tokenizer=tmp_path / "absent.json")
    with pytest.raises(InputError, match="is not a tokenizer file"):
        load(path, tokenizer=path)


@pytest.mark.parametrize("as_list", [True, False])
def test_sharegpt_prompts_grow(tmp_path: Path, as_list: bool) -> None:
    turns = [
        {"from": f, "value": t * 40} for f, t in (("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d"))
    ]
    conversations = [{"id": "one", "conversations": turns}, {"id": "two", "conversations": turns[:2]}]
    path = tmp_path / "t.json"
    if as_list:
        path.write_text(json.dumps(conversations, indent=1))
    else:
        jsonl(path, *conversations)
    assert detect(Source(path)) == "sharegpt"
    trace = load(path)
    assert trace.requests == 3
    assert trace.output_tokens.tolist() == [40, 40, 40]
    assert trace.session_ids is not None
    assert trace.session_ids.tolist() == [0, 0, 1]
    assert np.isnan(trace.arrival_seconds).all()
    blocks = [trace.block_ids[a:b].tolist() for a, b in zip(trace.offsets, trace.offsets[1:], strict=False)]
    assert blocks[1][: len(blocks[0])] == blocks[0] == blocks[2]


# --- tables ----------------------------------------------------------------------------------------------


def test_csv_with_declared_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("when,prompt,hashes,conv\n0.0,32,1 2,a\n0.5,40,1;3,b\n")
    assert detect(Source(path)) == "table"
    columns = {"time": "when", "input_tokens": "prompt", "blocks": "hashes", "session": "conv"}
    trace = load(f"csv:{path}", columns=columns, block_tokens=16)
    assert trace.block_ids.tolist() == [0, 1, 0, 2]
    assert trace.arrival_seconds.tolist() == [0, 0.5]
    assert trace.session_ids is not None
    with pytest.raises(InputError, match="no column `blocks`"):
        load(path, columns={"input_tokens": "prompt"}, block_tokens=16)
    with pytest.raises(InputError, match="unknown column `x`"):
        load(path, columns={"x": "prompt"}, block_tokens=16)
    path.write_text("input_tokens,blocks,blocks\n32,1 2,3\n")
    with pytest.raises(InputError, match="two columns named `blocks`"):
        load(path, block_tokens=16)
    path.write_text("time,input_tokens,blocks\n0.0,32,1 2\n0.5,,1;3\n")
    with pytest.raises(InputError, match="line 3: `input_tokens`"):
        load(path, block_tokens=16)


def test_parquet_with_lists(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"time": [0.0, 1.5], "input_tokens": [32, 32], "blocks": [[1, 2], [1, 3]]})
    path = tmp_path / "t.parquet"
    parquet.write_table(table, path)
    trace = load(path, block_tokens=16)
    assert trace.block_ids.tolist() == [0, 1, 0, 2]
    whole = path.read_bytes()
    for damaged in (whole[:100], *(whole[:at] + b"\xff\xff" + whole[at + 2 :] for at in range(4, 40, 3))):
        path.write_bytes(damaged)
        try:
            load(path, block_tokens=16)
        except InputError as error:
            assert str(path) in str(error)


def test_parquet_times_say_their_unit(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(
        {
            "time": pa.array([0, 2_500_000], pa.timestamp("us")),
            "input_tokens": [32, 32],
            "blocks": [[2**63, 1], [2**63, 2]],
        },
        schema=pa.schema(
            {"time": pa.timestamp("us"), "input_tokens": pa.int64(), "blocks": pa.list_(pa.uint64())}
        ),
    )
    path = tmp_path / "t.parquet"
    parquet.write_table(table, path)
    assert load(path, block_tokens=16).arrival_seconds.tolist() == [0, 2.5]
    assert load(path, block_tokens=16, time_unit="ms").arrival_seconds.tolist() == [0, 2.5]


def test_unknown_formats(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", {"a": 1})
    with pytest.raises(InputError, match="cannot tell the format"):
        load(path)
    with pytest.raises(InputError, match="unknown trace format `moon`") as caught:
        load("moon:t.jsonl")
    assert "mooncake" in str(caught.value.hint)
    with pytest.raises(InputError, match="no such file"):
        load("mooncake:absent.jsonl")
    with pytest.raises(InputError, match="unknown time unit"):
        read(path, ReadOptions(time_unit="h"))


def test_csv_types_are_not_guessed_from_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{i},16,{i}" for i in range(200_000)]
    path.write_text("time,input_tokens,blocks\n" + "\n".join([*rows, "200000.5,32,7 999999", ""]))
    assert load(path, block_tokens=16).requests == 200_001
    path.write_text("time,input_tokens,blocks\n0,16,1\n1,many,1\n2,16,18446744073709551615\n")
    with pytest.raises(InputError, match="line 3: `input_tokens`"):
        load(path, block_tokens=16)
    assert load(path, block_tokens=16, skip_bad=True).requests == 2
    path.write_text("time,input_tokens,blocks\n2026-11-29T10:00:00Z,16,1\n2026-11-29 10:00:02+00:00,16,2\n")
    assert load(path, block_tokens=16).arrival_seconds.tolist() == [0, 2]


def test_csv_rows_of_another_width_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time,input_tokens,blocks\n0,16,1\n1\n2,0,1\n3,16,1\n")
    with pytest.raises(InputError, match="Row #3"):
        load(path, block_tokens=16)
    found = read(path, ReadOptions(block_tokens=16, skip_bad=True))
    assert found.trace.requests == 2
    assert sorted(found.first_lines.values()) == [3, 4]
    path.write_bytes(b"time,input_tokens,blocks\n\xff,1\n")
    with pytest.raises(InputError, match="cannot be read as a table"):
        load(f"csv:{path}", block_tokens=16, skip_bad=True)


def test_parquet_may_be_compressed_as_a_whole(tmp_path: Path) -> None:
    import gzip

    import pyarrow as pa
    from pyarrow import parquet

    plain = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"input_tokens": [32, 32], "blocks": [[1, 2], [1, 3]]}), plain)
    packed = tmp_path / "t.parquet.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert load(packed, block_tokens=16).block_ids.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_list_of_messages_is_conversations(tmp_path: Path, indent: int | None, mark: bytes) -> None:
    path = tmp_path / "t.json"
    turns = [{"role": "user", "content": "q" * 40}, {"role": "assistant", "content": "a" * 5}]
    path.write_bytes(mark + json.dumps([{"messages": turns}], indent=indent).encode())
    assert detect(Source(path)) == "sharegpt"
    assert load(path).output_tokens.tolist() == [5]


def test_what_was_left_out_is_said_when_nothing_is_left(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "t.jsonl", {"ts": 1, "prompt": ""}, {"ts": 2, "messages": 5})
    with pytest.raises(
        InputError, match=r"1 left out: neither `messages`.*line 2.*1 left out: the prompt is"
    ):
        load(f"openai:{path}", skip_bad=True)


def test_a_folder_says_which_file_is_no_session(tmp_path: Path) -> None:
    jsonl(tmp_path / "mooncake.jsonl", {"timestamp": 1, "input_length": 16, "hash_ids": [1]})
    with pytest.raises(InputError, match=r"`mooncake\.jsonl`") as caught:
        load(tmp_path)
    assert "--sample" in str(caught.value.hint)


@pytest.mark.parametrize("text", ['{"timestamp": 0}', "{}"])
def test_ids_past_the_signed_range_are_reported_with_their_line(tmp_path: Path, text: str) -> None:
    # The second file has a line that only the exact reader takes.
    row = {"timestamp": 0, "input_length": 16, "output_length": 1, "hash_ids": [1]}
    large = {**row, "hash_ids": [2**63]} | ({"extra": [1]} if text == "{}" else {})
    path = jsonl(tmp_path / "t.jsonl", row, row, large, large)
    found = read(f"mooncake:{path}", ReadOptions(block_tokens=16))
    assert found.trace.unique_blocks == 2
    assert [note for note in found.notes if "2^63" in note and "line 3" in note]
