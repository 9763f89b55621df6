"""The recorder's own process and the scheduler's end of it, without a server."""

import gzip
import json
import math
import resource
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from warmset.curves.exact import lru_curve
from warmset.traces import load
from warmset.vllm.recorder_live import LiveCurve
from warmset.vllm.recorder_settings import DEVICE_POOLS, RecorderSettings, beside, live_path
from warmset.vllm.recorder_tap import FRAME, Tap
from warmset.vllm.recorder_writer import TraceFile, _Recording, shorten


def chains(requests=60, sessions=12, seed=3):
    """Prompt hash chains of growing sessions."""
    rng, length = np.random.default_rng(seed), {}
    for _ in range(requests):
        session = int(rng.integers(sessions))
        length[session] = length.get(session, 2) + int(rng.integers(1, 5))
        yield [sha256(f"{session}/{i}".encode()).digest() for i in range(length[session])]


def record(path, hashes, **settings):
    tap = Tap(RecorderSettings(path, **settings), block_tokens=16, device_blocks=40, model="m")
    for number, chain in enumerate(hashes):
        tap.put(1000.0 + number, len(chain) * 16 + 5, 7, 32, chain)
    tap.close()
    return json.loads(live_path(path).read_text())


def test_the_live_curve_equals_the_curve_of_the_recorded_trace(tmp_path):
    path = tmp_path / "traffic.jsonl.gz"
    live = record(path, chains())
    curve = lru_curve(load(path))
    assert live["requests"] == 60
    assert live["sampled_ratio"] == 1
    assert [point["device_pools"] for point in live["points"]] == list(DEVICE_POOLS)
    for point in live["points"]:
        assert point["hit_ratio"] == curve.hit_ratio_at(point["capacity_blocks"])
    gains = [point["host_tier_hit_ratio"] for point in live["points"]]
    assert gains[:2] == [0, 0]
    assert gains[2] == pytest.approx(curve.hit_ratio_at(80) - curve.hit_ratio_at(40))
    assert gains[2] > 0


def test_what_was_recorded_is_what_was_sent(tmp_path):
    path = tmp_path / "traffic.jsonl.gz"
    sent = list(chains())
    record(path, sent)
    trace = load(path)
    assert trace.requests == 60
    assert trace.block_tokens == 16
    assert np.diff(trace.offsets).tolist() == [len(chain) for chain in sent]
    assert trace.arrival_seconds.tolist() == list(range(60))
    assert set(trace.output_tokens.tolist()) == {7}
    names = {}
    expected = [names.setdefault(digest, len(names)) for chain in sent for digest in chain]
    assert trace.block_ids.tolist() == expected


def test_two_recordings_of_the_same_prompts_have_nothing_in_common(tmp_path):
    ids = []
    for name in ("a.jsonl", "b.jsonl"):
        record(tmp_path / name, chains())
        lines = (tmp_path / name).read_text().splitlines()
        assert json.loads(lines[0])["salted"] is True
        ids.append({json.loads(line)["blocks"][:10] for line in lines[1:]})
    assert not ids[0] & ids[1]


def test_ids_need_the_salt():
    digest = sha256(b"prompt").digest()
    assert shorten(digest, 32, b"a" * 32) != shorten(digest, 32, b"b" * 32)
    assert len(shorten(digest * 3, 32, b"a")) == 24


def test_an_old_recording_is_kept_beside_the_new_one(tmp_path):
    path = tmp_path / "traffic.jsonl.gz"
    record(path, chains(requests=5))
    first = path.read_bytes()
    record(path, chains(requests=6))
    assert beside(path, "1").name == "traffic.1.jsonl.gz"
    assert beside(path, "1").read_bytes() == first
    assert load(path).requests == 6


def test_files_are_bounded_and_each_is_whole(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    file = TraceFile(path, b'{"format":"warmset.trace/1","block_tokens":16}\n', max_bytes=4000, files=3)
    rng = np.random.default_rng(0)
    for _ in range(60):
        file.write(b'{"in":16,"blocks":[%d]}\n' % rng.integers(2**62) * 20)
        file.flush()
    found = sorted(tmp_path.iterdir())
    assert [one.name for one in found] == ["t.1.jsonl.gz", "t.2.jsonl.gz", "t.jsonl.gz"]
    assert sum(one.stat().st_size for one in found) < 4000 * 1.5
    for one in found:
        lines = gzip.decompress(one.read_bytes()).splitlines()
        assert json.loads(lines[0])["format"] == "warmset.trace/1"
        assert all(json.loads(line) for line in lines)


def test_a_full_disk_is_said_once_and_survived(tmp_path, capsys):
    file = TraceFile(tmp_path / "gone" / "t.jsonl", b"h\n", max_bytes=1000, files=2)
    for _ in range(3):
        file.write(b"x\n")
        file.flush()
    assert capsys.readouterr().err.count("warmset recorder:") == 1


def test_a_disk_that_fills_up_leaves_whole_pieces_and_counts_what_is_lost(tmp_path, capsys):
    path = tmp_path / "t.jsonl.gz"
    file = TraceFile(path, b'{"format":"warmset.trace/1","block_tokens":16}\n', max_bytes=10**6, files=2)
    rng = np.random.default_rng(1)

    def write():
        file.write(b'{"in":1600,"blocks":%s}\n' % json.dumps(rng.integers(2**62, size=100).tolist()).encode())
        file.flush()

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The kernel then writes what still fits, as a full disk does, and refuses the rest.
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))
    try:
        for _ in range(10):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert 0 < file.lost_lines < 10
    assert capsys.readouterr().err.count("warmset recorder:") == 1
    write()
    assert load(path).requests == 10 - file.lost_lines + 1


def test_requests_that_overtake_each_other_are_written_in_order_of_arrival(tmp_path):
    path = tmp_path / "t.jsonl.gz"
    tap = Tap(RecorderSettings(path), block_tokens=16, device_blocks=40, model="m")
    sent = list(chains())
    # Every eighth takes long: it finishes after the seven that came after it.
    order = [i for at in range(0, 60, 8) for i in (*range(at + 1, min(at + 8, 60)), at)]
    running = set()
    for place, number in enumerate(order):
        running |= set(range(number + 1))
        running -= set(order[: place + 1])
        tap.put(
            1000.0 + number, len(sent[number]) * 16, 1, 0, sent[number],
            oldest_running=min((1000.0 + i for i in running), default=math.inf),
        )  # fmt: skip
    tap.close()
    trace = load(path)
    assert trace.arrival_seconds.tolist() == list(range(60))
    assert np.diff(trace.offsets).tolist() == [len(chain) for chain in sent]
    curve = lru_curve(trace)
    for point in json.loads(live_path(path).read_text())["points"]:
        assert point["hit_ratio"] == curve.hit_ratio_at(point["capacity_blocks"])


def test_a_request_that_never_finishes_holds_nothing_back_for_ever(tmp_path):
    recording = _Recording(
        {"path": str(tmp_path / "t.jsonl"), "block_tokens": 16, "device_blocks": 4, "model": "m"}
        | {"max_bytes": 10**6, "files": 1, "curve_accesses": 1000, "device_pools": [1.0]}
    )
    frames = b"".join(FRAME.pack(10.0 + i, 9.0, 16, 1, 0, 32, 32, 0) + bytes(32) for i in range(3))
    recording._take(bytearray(frames), 100.0)
    assert recording._curve.points()["requests"] == 0
    recording._release(-math.inf, 400.0)
    assert recording._curve.points()["requests"] == 3
    # One that comes too late for its place is written at the time that the file has reached.
    recording._take(bytearray(FRAME.pack(9.5, math.inf, 16, 1, 0, 32, 32, 0) + bytes(32)), 401.0)
    recording._file.flush()
    assert load(tmp_path / "t.jsonl").arrival_seconds.tolist() == [0, 1, 2, 2]


def test_where_nothing_can_be_written_no_old_curve_is_shown(tmp_path):
    path = tmp_path / "t.jsonl"
    record(path, chains(requests=5))
    tap = Tap(RecorderSettings(path), block_tokens=16, device_blocks=40, model="m")
    deadline = time.monotonic() + 10
    while not live_path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert json.loads(live_path(path).read_text())["points"] == []
    tap._writer.kill()
    tap._writer.wait()
    tap.put(1.0, 16, 1, 0, [bytes(32)])
    tap.close()
    assert not live_path(path).exists()


def test_beyond_its_bound_the_live_curve_follows_a_sample():
    rng = np.random.default_rng(5)
    exact = LiveCurve(16, 2000, (1.0, 4.0), 10**9)
    sampled = LiveCurve(16, 2000, (1.0, 4.0), 40_000)
    prefixes = [rng.integers(0, 2**64, 120, dtype=np.uint64) for _ in range(150)]
    for _ in range(3000):
        chain = prefixes[int(150 * rng.random() ** 2)].tobytes()
        exact.add(chain)
        sampled.add(chain)
    a, b = exact.points(), sampled.points()
    assert a["sampled_ratio"] == 1
    assert b["sampled_ratio"] <= 1 / 8
    assert a["requests"] == b["requests"] == 3000
    for one, two in zip(a["points"], b["points"], strict=True):
        assert two["hit_ratio"] == pytest.approx(one["hit_ratio"], abs=0.03)


def test_a_place_that_takes_no_files_costs_the_server_nothing(capfd):
    # Not even root can make a file there.
    tap = Tap(RecorderSettings(Path("/proc/t.jsonl.gz")), block_tokens=16, device_blocks=40, model="m")
    began = time.monotonic()
    for number, chain in enumerate(chains()):
        tap.put(float(number), 99, 1, None, chain)
    assert time.monotonic() - began < 1
    tap.close()
    assert tap._writer.poll() == 0
    assert capfd.readouterr().err.count("warmset recorder:") == 1


def test_a_writer_that_dies_costs_the_server_nothing(tmp_path):
    tap = Tap(RecorderSettings(tmp_path / "t.jsonl"), block_tokens=16, device_blocks=40, model="m")
    tap._writer.kill()
    tap._writer.wait()
    began = time.monotonic()
    for number, chain in enumerate(chains()):
        tap.put(float(number), 99, 1, None, chain)
    tap.close()
    assert time.monotonic() - began < 5


def test_a_writer_that_hangs_is_bounded(tmp_path):
    import os
    import signal

    tap = Tap(
        RecorderSettings(tmp_path / "t.jsonl", backlog_bytes=200_000),
        block_tokens=16,
        device_blocks=4,
        model="m",
    )
    os.kill(tap._writer.pid, signal.SIGSTOP)
    try:
        chain = [bytes(32)] * 100
        for number in range(1000):
            tap.put(float(number), 1600, 1, None, chain)
        assert tap._dropped > 800
    finally:
        tap._writer.kill()
        tap._writer.wait()
        tap.close()


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({}, "needs a `path`"),
        ({"path": "/no/such/place/t.gz"}, "not a directory"),
        ({"path": "t.gz", "max_byte": 3}, "knows no `max_byte`"),
        ({"path": "t.gz", "files": 0}, "`files` is `0`"),
        ({"path": "t.gz", "files": True}, "`files` is `True`"),
    ],
)
def test_settings_that_make_no_sense_are_refused(extra, words):
    with pytest.raises(ValueError, match=words):
        RecorderSettings.parse(extra)


def test_replicas_record_beside_each_other(tmp_path):
    settings = RecorderSettings.parse({"path": str(tmp_path / "t.jsonl.gz")}, replica=3)
    assert settings.path == tmp_path / "t.dp3.jsonl.gz"


def test_the_writer_ends_with_its_input():
    writer = subprocess.run(
        [sys.executable, "-m", "warmset.vllm.recorder_writer"], input=b"", timeout=30, check=False
    )
    assert writer.returncode == 0
