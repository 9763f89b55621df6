"""Mooncake lines: what is read, what is refused, and that both ways of reading agree."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warmset.errors import InputError
from warmset.traces import ReadOptions, load, read, stream
from warmset.traces.formats import mooncake
from warmset.traces.formats.mooncake_fast import read_regular
from warmset.traces.formats.mooncake_uniform import read_uniform
from warmset.traces.rows import Rows


def row(ids: list[Any], tokens: int | None = None, time: Any = 0, **more: Any) -> str:
    return json.dumps(
        {"timestamp": time, "input_length": len(ids) * 16 if tokens is None else tokens, "output_length": 3,
         "hash_ids": ids, **more}
    )  # fmt: skip


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


def test_reads_the_columns(file: Path) -> None:
    write(file, row([7, 8], 30, 1000), row([7, 9], 32, 3000))
    trace = load(file, block_tokens=16)
    assert trace.block_ids.tolist() == [0, 1, 0, 2]
    assert trace.block_ids.dtype == np.int32
    assert trace.offsets.tolist() == [0, 2, 4]
    assert trace.arrival_seconds.tolist() == [0, 2]
    assert trace.input_tokens.tolist() == [30, 32]
    assert trace.output_tokens.tolist() == [3, 3]
    assert trace.session_ids is None
    assert trace.tokens_per_block is None
    assert trace.unique_blocks == 3


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_compression_is_told_by_content(tmp_path: Path, suffix: str) -> None:
    import zstandard

    text = (row([1, 2]) + "\n").encode()
    data = {"": text, ".gz": gzip.compress(text), ".zst": zstandard.compress(text)}[suffix]
    path = tmp_path / "noname"
    path.write_bytes(data)
    assert load(f"mooncake:{path}", block_tokens=16).accesses == 2


def test_extra_keys_are_read(file: Path) -> None:
    write(
        file,
        row([1, 2], 20, block_size=16, block_tokens=[16, 4], session_id="a"),
        row([1], 16, block_size=16, block_tokens=[16], session_id="b"),
        row([1, 2], 20, block_size=16, block_tokens=[16, 4], session_id="a"),
    )
    trace = load(file)
    assert trace.block_tokens == 16
    assert trace.tokens_per_block is not None
    assert trace.tokens_per_block.tolist() == [16, 4, 16, 16, 4]
    assert trace.session_ids is not None
    assert trace.session_ids.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "ids",
    [
        [[2**63, 2**63 + 1], [2**63, 2**64 - 1]],
        [["a1b2", "ffff"], ["a1b2", "0000"]],
        [["0x" + "f" * 64, "b"], ["0x" + "f" * 64, "c"]],
        [[-5, -6], [-5, -(2**63)]],
        [["a", 1], ["a", 2]],
    ],
)
def test_ids_of_any_kind(file: Path, ids: list[list[Any]]) -> None:
    write(file, *(row(r) for r in ids))
    assert load(file, block_tokens=16).block_ids.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("bad", [2**64, -(2**63) - 1, 1.5, None, True, [1], {}, ""])
def test_ids_that_are_none(file: Path, bad: Any) -> None:
    write(file, row([1, 2]), row([1, bad]))
    with pytest.raises(InputError, match="line 2: a block id"):
        load(f"mooncake:{file}", block_tokens=16)


BAD = [
    ('{"timestamp": 0, "input_length": 32, "hash_ids": [1, 2', "not valid JSON, or cut short"),
    ('{"timestamp": 0, "input_length": "32", "hash_ids": [1, 2]}', "`input_length`"),
    ('{"timestamp": 0, "input_length": -1, "hash_ids": []}', "`input_length`"),
    ('{"timestamp": 0, "hash_ids": [1, 2]}', "`input_length`"),
    ('{"timestamp": "x", "input_length": 32, "hash_ids": [1, 2]}', "time"),
    ('{"timestamp": 1e999, "input_length": 32, "hash_ids": [1, 2]}', "time"),
    ('{"timestamp": 0, "input_length": 32, "hash_ids": [1,,2]}', "not valid JSON"),
    ('{"timestamp": 0, "input_length": 32, "hash_ids": [1 2]}', "not valid JSON"),
    ('{"timestamp": 0, "input_length": 32, "hash_ids": {"a": 1}}', "not a list"),
    ('{"timestamp": 0, "input_length": 32, "hash_ids": [1, 1]}', "different prefix"),
    ('{"timestamp": 0, "input_length": 32, "hash_ids": [2, 1]}', "different prefix"),
    ('{"timestamp": 0, "input_length": 0, "hash_ids": []}', "prompt is empty"),
    ('{"timestamp": -1, "input_length": 32, "hash_ids": [1, 2]}', "backwards"),
    ("[1, 2]", "not a JSON object"),
    ("\0\0\0", "not valid JSON"),
    ("[" * 100_000, "nested too deeply"),
    ('{"timestamp": 0, "input_length": 32, "block_tokens": [1], "hash_ids": [1, 2]}', "one entry per block"),
    ('{"timestamp": 0, "input_length": 32, "session_id": [], "hash_ids": [1, 2]}', "session id"),
]


@pytest.mark.parametrize(("line", "reason"), BAD)
def test_bad_lines_are_named_and_skipped(file: Path, line: str, reason: str) -> None:
    write(file, row([1, 2]), row([1, 3]), line, row([1, 2]))
    with pytest.raises(InputError, match="line 3: ") as caught:
        load(f"mooncake:{file}", block_tokens=16)
    assert reason in caught.value.message
    assert caught.value.hint is not None
    reading = read(f"mooncake:{file}", ReadOptions(block_tokens=16, skip_bad=True))
    assert reading.trace.requests == 3
    assert list(reading.skipped.values()) == [1]
    assert list(reading.first_lines.values()) == [3]


def test_a_skipped_chain_leaves_no_mark(file: Path) -> None:
    # Line 2 contradicts line 1; what it says of block 9 must not count against line 3.
    write(file, row([1, 2]), row([2, 9]), row([1, 9]))
    reading = read(file, ReadOptions(block_tokens=16, skip_bad=True))
    assert reading.trace.block_ids.tolist() == [0, 1, 0, 2]


def test_backward_times_can_be_sorted(file: Path) -> None:
    write(file, row([1], time=5000), row([2], time=1000), row([3], time=9000))
    trace = load(file, block_tokens=16, sort=True)
    assert trace.arrival_seconds.tolist() == [0, 4, 8]
    assert trace.input_tokens.tolist() == [16, 16, 16]


def test_ties_and_missing_times_are_fine(file: Path) -> None:
    write(file, row([1], time=5), row([2], time=None), row([3], time=5))
    times = load(file, block_tokens=16).arrival_seconds
    assert np.isnan(times[1])
    assert times[[0, 2]].tolist() == [0, 0]


def test_block_size_is_detected_or_asked_for(file: Path) -> None:
    write(file, row([1, 2, 3], 1100), row([1, 2], 700))
    assert load(file).block_tokens == 512
    write(file, row([1], 10), row([2], 10))
    with pytest.raises(InputError, match="does not say how many tokens") as caught:
        load(file)
    assert "--block-tokens" in str(caught.value.hint)


def test_block_sizes_must_agree(file: Path) -> None:
    write(file, row([1], block_size=16))
    with pytest.raises(InputError, match="`16` tokens where `512`"):
        load(file, block_tokens=512)


@pytest.mark.parametrize(
    ("times", "span"),
    [
        ([0, 1000, 2000], 2),  # whole numbers, a second apart: milliseconds
        ([0.0, 0.25, 1.5], 1.5),  # fractions close together: seconds
        ([1.7e9, 1.7e9 + 1, 1.7e9 + 60], 60),
        ([1_700_000_000_000, 1_700_000_000_500, 1_700_000_060_000], 60),
    ],
)
def test_time_unit_is_detected(file: Path, times: list[float], span: float) -> None:
    write(file, *(row([i], time=time) for i, time in enumerate(times)))
    assert load(file, block_tokens=16).arrival_seconds[-1] == pytest.approx(span)


def test_time_unit_as_given(file: Path) -> None:
    write(file, row([1], time=0), row([2], time=7))
    assert load(file, block_tokens=16, time_unit="s").arrival_seconds[-1] == 7


def sessions_of(rows: Rows) -> list[object] | None:
    found = rows.sessions
    return found.tolist() if isinstance(found, np.ndarray) else None if found is None else list(found)


def test_fast_and_exact_reading_agree(shared: Path) -> None:
    for name in ("mooncake/synthetic_trace", "ragpulse/ragpulse_chained", "tau/tau_airline_c8_bs16"):
        text = gzip.decompress((shared / "traces" / f"{name}.jsonl.gz").read_bytes())[:200_000]
        text = text[: text.rfind(b"\n") + 1]
        fast = read_regular(text, 1)
        exact = mooncake.read_exact(text, 1, mooncake.Problems("x"))
        assert fast is not None
        assert (read_uniform(text, 1) is not None) == (name == "mooncake/synthetic_trace")
        for column in ("labels", "lengths", "times", "input_tokens", "output_tokens", "lines"):
            assert np.array_equal(getattr(fast, column), getattr(exact, column)), (name, column)
        assert sessions_of(fast) == sessions_of(exact)
        assert fast.block_tokens == exact.block_tokens
        assert (fast.tokens_per_block is None) == (exact.tokens_per_block is None)
        if fast.tokens_per_block is not None:
            assert np.array_equal(fast.tokens_per_block, exact.tokens_per_block)


def test_a_stream_has_the_same_requests(shared: Path) -> None:
    path = shared / "traces/tau/tau_airline_c8_bs16.jsonl.gz"
    whole, parts = load(path), list(stream(path, 500))
    assert max(p.requests for p in parts) == 500
    assert sum(p.requests for p in parts) == whole.requests == 2454
    assert sum(p.accesses for p in parts) == whole.accesses
    assert len(np.unique(np.concatenate([p.block_ids for p in parts]))) == whole.unique_blocks
    assert np.array_equal(np.concatenate([p.arrival_seconds for p in parts]), whole.arrival_seconds)
    assert whole.session_ids is not None
    assert np.array_equal(np.concatenate([p.session_ids for p in parts]), whole.session_ids)


def test_rechaining_content_ids(file: Path) -> None:
    write(file, row([1, 5]), row([2, 5]))
    with pytest.raises(InputError, match="different prefix") as caught:
        load(file, block_tokens=16)
    assert "--rechain" in str(caught.value.hint)
    assert load(file, block_tokens=16, rechain=True).unique_blocks == 4


@pytest.mark.parametrize("number", ["1e2", "-3", "+3", "1 0", "0x1", "1_0", "1.5.5", "NaN", '"7"', "true"])
@pytest.mark.parametrize("field", ["timestamp", "input_length"])
def test_a_number_is_never_read_as_another(file: Path, number: str, field: str) -> None:
    """The fast path reads digits; whatever surrounds them must not change what they mean."""
    good = '{"timestamp": 0, "input_length": 10, "output_length": 1, "hash_ids": [0]}\n'
    file.write_text(good + good.replace('"timestamp": 0' if field == "timestamp" else '"input_length": 10',
                                        f'"{field}": {number}'))  # fmt: skip
    try:
        expected = json.loads(file.read_text().splitlines()[1])[field]
        # Times may be quoted, as some loggers write them; a count may not.
        expected = float(expected) if field == "timestamp" and isinstance(expected, str) else expected
        valid = type(expected) in (int, float) and 0 <= expected < 1e18
    except ValueError:
        valid = False
    if not valid:
        with pytest.raises(InputError, match="line 2"):
            load(file, block_tokens=16, time_unit="s")
        return
    trace = load(file, block_tokens=16, time_unit="s")
    found = trace.arrival_seconds[1] if field == "timestamp" else trace.input_tokens[1]
    assert found == expected


def _alike(draw: random.Random) -> bytes:
    """A few lines of one program: one order of names, one spacing, and small numbers."""
    names = ["timestamp", "input_length", "output_length", *["session_id"] * draw.randrange(2)]
    draw.shuffle(names)
    spacing = draw.choice(((",", ":"), (", ", ": ")))
    rows = []
    for _ in range(draw.randint(1, 4)):
        values: dict[str, Any] = {name: draw.randint(0, 10 ** draw.randint(1, 8) - 1) for name in names}
        ids = [draw.randint(0, 10 ** draw.randint(1, 8) - 1) for _ in range(draw.randint(1, 4))]
        rows.append(json.dumps({**values, "hash_ids": ids}, separators=spacing))
    return "\n".join([*rows, ""]).encode()


def _lines(draw: random.Random) -> bytes:
    """A few lines as programs write them, in one of several styles."""
    style, rows = draw.randrange(7), []
    names = ["timestamp", "input_length", "output_length", "hash_ids"]
    draw.shuffle(names)
    for number in range(draw.randint(1, 4)):
        ids = [
            draw.choice((draw.randint(0, 99), draw.randint(0, 2**64 - 1))) for _ in range(draw.randint(0, 4))
        ]
        values = {
            "timestamp": number * 1000 + (0.5 if style == 1 else 0),
            "input_length": draw.randint(1, 99_999),
            "output_length": draw.randint(0, 999),
            "hash_ids": ids,
        }
        line = {name: values[name] for name in names}
        if style in (2, 3, 6):
            line["session_id"] = 'a"\\é' if style == 2 else number
        if style in (4, 6):
            line["block_size"] = 64
        if style in (5, 6):
            line["block_tokens"] = [draw.randint(0, 64) for _ in ids]
        rows.append(json.dumps(line, separators=draw.choice(((",", ":"), (", ", ": ")))))
    return "\n".join([*rows, ""]).encode()


_PIECES = (
    *(bytes([c]) for c in b'0123456789-+.eE,:[]{}"\\ \t\n\r\0/anl_\x0b\x0c\x85\xff'),
    b"NaN", b"-1", b"1e5", b"null", b"true", b'"a"', b"\xef\xbb\xbf", b"\r\n", b"{}", b".5", b"5.", b"00",
    b'"hash_ids":[1]', b'"hash_ids":0', b'"block_tokens":[1]', b'"timestamp":5,', b"18446744073709551615",
    b"18446744073709551616", b"9007199254740993", b"2147483648", b"\\u0031", b", ,", b" ,", b",,",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("read_fast", "lines"), [(read_regular, _lines), (read_uniform, _alike)])
def test_what_is_read_fast_is_what_is_read_exactly(read_fast: Any, lines: Any, seed: int) -> None:
    """Lines with bytes inserted, deleted and swapped: a fast reader gives the same rows, or gives way."""
    draw, fast_ones = random.Random(seed), 0
    for _ in range(400):
        text = bytearray(lines(draw))
        for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
            at, other = draw.randrange(len(text)), draw.randrange(len(text))
            how = draw.randrange(4)
            if how == 0:
                text[at:at] = draw.choice(_PIECES)
            elif how == 1 and len(text) > 30:
                del text[at : at + draw.choice((1, 1, 2, 5, 20))]
            elif how == 2:
                text[at], text[other] = text[other], text[at]
            else:
                text[at : at + 1] = draw.choice(_PIECES)
        fast = read_fast(bytes(text), 1)
        if fast is None:
            continue
        fast_ones += 1
        exact = mooncake.read_exact(bytes(text), 1, mooncake.Problems("x"))
        for column in ("labels", "lengths", "times", "input_tokens", "output_tokens", "lines"):
            assert np.array_equal(getattr(fast, column), getattr(exact, column), equal_nan=True), bytes(text)
        assert sessions_of(fast) == sessions_of(exact), bytes(text)
        assert fast.block_tokens == exact.block_tokens, bytes(text)
        listed = [[] if r.tokens_per_block is None else r.tokens_per_block.tolist() for r in (fast, exact)]
        assert listed[0] == listed[1], bytes(text)
    assert fast_ones > 50


@pytest.mark.parametrize(
    "line",
    [
        '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [7, , 9]}',
        '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [7\x0b]}',
        '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [7].5}',
        '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [07]}',
        '{"timestamp": 0, "input3_length": 5, "output_length": 1, "hash_ids": [7]}',
        '{"timestamp": 0, "input_length"5:, "output_length": 1, "hash_ids": [7]}',
        '{"timestamp": 3., "input_length": 5, "output_length": 1, "hash_ids": [7]}',
        '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids"\n: [7]}',
    ],
)
def test_what_is_no_json_is_refused_at_any_speed(file: Path, line: str) -> None:
    good = '{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [7]}'
    file.write_text("\n".join([good, line, good, ""]))
    with pytest.raises(InputError, match="line 2"):
        load(file, block_tokens=16)
