"""One server with the recorder beside the offloading connector: what the lab says of it, and what was recorded."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import jsonschema
import pytest

from warmset.curves.exact import lru_curve
from warmset.lab.backends import HostTier, transfer_config
from warmset.lab.builtin import Shape, builtin
from warmset.lab.model import ModelShape, write_model
from warmset.lab.predict import Tiers, predict
from warmset.lab.replay import replay
from warmset.lab.server import VllmServer, running
from warmset.lab.workload import each
from warmset.report.data import schema_text
from warmset.traces import load

pytestmark = pytest.mark.e2e
BLOCK, DEVICE, TIER = 32, 160, 400
ONE = {"OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Recorded:
    """What one server saw: `warmset lab --url` one at a time, then other traffic eight at a time.

    Attributes:
        lab: the lab's JSON.
        page: /metrics after the lab.
        trace: the recording of the lab's traffic.
        crowd_hits: device and tier hit tokens of the traffic with eight in flight.
        crowd: that workload.
        whole: the recording and /metrics after all of it.
    """

    lab: dict
    page: str
    trace: Path
    crowd_hits: float
    crowd: object
    whole: tuple


def _recorder(path):
    return {
        "kv_connector": "TrafficRecorder",
        "kv_connector_module_path": "warmset.vllm.recorder",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"path": str(path)},
    }


@pytest.fixture(scope="module")
def recorded(vllm, tmp_path_factory):
    home = tmp_path_factory.mktemp("recorder")
    path = home / "traffic.jsonl.gz"
    shape = ModelShape()
    size = shape.kv_bytes_per_block(BLOCK)
    both = {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "connectors": [_recorder(path), transfer_config("native", HostTier(TIER, size))]
        },
    }
    model = write_model(home / "model", shape)
    server = VllmServer(
        sys.executable, model, DEVICE, BLOCK, size * (DEVICE + 1), 2048, 8, both, environment=ONE
    )
    crowd = builtin("rag", Shape((DEVICE - 1) * BLOCK, TIER * BLOCK, 120, None, 5))
    with running(server, home / "server.log") as up:
        words = [sys.executable, "-m", "warmset", "lab", "--url", up.url, "--requests", "80", "--seed", "7"]
        words += ["--tier-blocks", str(TIER)]
        words += ["--run-dir", str(home / "run"), "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        page = page_after(up.url, 80)
        shutil.copy(path, home / "lab.jsonl.gz")
        replay(crowd, up.url, up.model, concurrency=8)
        after = page_after(up.url, 200)
        shutil.copy(path, home / "whole.jsonl.gz")
    hits = sum(
        total(after, name) - total(page, name)
        for name in ("vllm:prefix_cache_hits_total", "vllm:external_prefix_cache_hits_total")
    )
    whole = (home / "whole.jsonl.gz", after)
    return Recorded(json.loads(done.stdout), page, home / "lab.jsonl.gz", hits, crowd, whole)


def page_after(url, requests):
    """/metrics when that many requests have been recorded."""
    deadline, page = time.monotonic() + 60, ""
    while time.monotonic() < deadline and total(page, "warmset:recorder_requests") != requests:
        time.sleep(1)
        page = httpx.get(f"{url}/metrics").text
    return page


def samples(page, name):
    for line in page.splitlines():
        if line.startswith(name + "{"):
            labels, value = line[len(name) + 1 :].rsplit("} ", 1)
            yield dict(part.split("=", 1) for part in labels.replace('"', "").split(",")), float(value)


def total(page, name):
    return sum(value for _, value in samples(page, name))


def rows(path):
    # The writer appends whole gzip members; the last may be open still.
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()][1:]


def test_the_lab_predicts_the_hits_of_a_server_that_runs_already(recorded):
    result = recorded.lab
    jsonschema.validate(result, json.loads(schema_text("lab")))
    assert result["off"] is None
    assert result["device_blocks"] == DEVICE
    assert result["predicted"]["device_hit_tokens"] == result["measured"]["device_hit_tokens"] > 0
    # 0.32 does not say how large its host tier is; the lab was told.
    assert result["predicted"]["host_hit_tokens"] == result["measured"]["host_hit_tokens"] > 0


def test_every_request_is_recorded(recorded):
    trace, sent = load(recorded.trace), load(Path(recorded.lab["run_dir"], "trace.jsonl.gz"))
    assert trace.input_tokens.tolist() == sent.input_tokens.tolist()
    assert trace.output_tokens.tolist() == sent.output_tokens.tolist()
    assert trace.block_tokens == BLOCK
    assert lru_curve(trace).hit_ratio_at(DEVICE) == lru_curve(sent).hit_ratio_at(DEVICE)


def test_the_live_curve_equals_the_offline_curve(recorded):
    assert_live_equals_offline(recorded.page, recorded.trace)


def test_with_eight_in_flight_the_recording_is_in_order_and_the_curves_are_equal(recorded):
    path, page = recorded.whole
    trace = load(path)
    assert trace.requests == 200
    assert_live_equals_offline(page, path)
    assert total(page, "warmset:recorder_up") == 1
    assert total(page, "warmset:recorder_dropped_requests") == 0


def assert_live_equals_offline(page, path):
    curve = lru_curve(load(path))
    points = list(samples(page, "warmset:recorder_hit_ratio"))
    assert len(points) >= 6
    for labels, value in points:
        assert value == curve.hit_ratio_at(int(labels["capacity_blocks"])), labels
        assert int(labels["capacity_blocks"]) == round(float(labels["device_pools"]) * DEVICE)


def test_device_hits_are_recorded_and_the_tier_beside_still_loads(recorded):
    hits = total(recorded.page, "vllm:prefix_cache_hits_total")
    assert sum(row["hit_device"] for row in rows(recorded.trace)) == hits > 0
    assert total(recorded.page, "vllm:external_prefix_cache_hits_total") > 0


def test_with_eight_in_flight_the_prediction_is_close(recorded):
    tiers = Tiers(BLOCK, DEVICE, host_chunks=TIER, concurrency=8)
    predicted = predict(recorded.crowd, tiers)
    assert predicted.host_hit_tokens > 0
    tokens = sum(request.input_tokens for request in each(recorded.crowd))
    expected = predicted.device_hit_tokens + predicted.host_hit_tokens
    assert abs(recorded.crowd_hits - expected) / tokens <= 0.02


KEY = "Bearer a-key"
MOONCAKE = """
{"timestamp": 0, "input_length": 700, "output_length": 4, "hash_ids": [1, 2]}
{"timestamp": 900, "input_length": 1500, "output_length": 8, "hash_ids": [1, 3, 4]}
{"timestamp": 1900, "input_length": 1530, "output_length": 8, "hash_ids": [1, 3, 4]}
"""


@pytest.mark.full
@pytest.mark.parametrize("attention", ["full", "mixed"])
def test_the_life_of_a_server_with_the_recorder_alone(vllm, tmp_path, attention):
    path, shape = tmp_path / "traffic.jsonl.gz", ModelShape(attention=attention)
    size = shape.kv_bytes_per_block(BLOCK)
    model = write_model(tmp_path / "model", shape)
    key = ("--api-key", KEY.removeprefix("Bearer "))
    server = VllmServer(
        *(sys.executable, model, DEVICE, BLOCK, size * (DEVICE + 1), 2048, 8, _recorder(path)),
        arguments=key,
        environment=ONE,
    )
    workload = builtin("agent", Shape((DEVICE - 1) * BLOCK, TIER * BLOCK, 60, None, 3, 1024))
    with running(server, tmp_path / "server.log") as up:
        replay(workload, up.url, up.model, concurrency=8, headers={"Authorization": KEY})
        page = page_after(up.url, 60)
        trace = tmp_path / "copy.jsonl.gz"
        shutil.copy(path, trace)
        curve = lru_curve(load(trace))
        points = list(samples(page, "warmset:recorder_hit_ratio"))
        assert len(points) == 7
        for labels, value in points:
            assert value == curve.hit_ratio_at(int(labels["capacity_blocks"])), labels
        assert (
            sum(row["hit_device"] for row in rows(trace)) == total(page, "vllm:prefix_cache_hits_total") > 0
        )
        told = warmset("trace", "info", trace, "-o", "json")
        assert json.loads(told.stdout)["requests"] == 60, told.stderr

        if attention == "full":
            _replays_of_traces(up.url, tmp_path, trace)

        # The recorder ends, and the server does not notice.
        (writer,) = below(str(path), "recorder_writer")
        os.kill(writer, signal.SIGKILL)
        began = time.monotonic()
        replay(workload, up.url, up.model, concurrency=8, headers={"Authorization": KEY})
        assert time.monotonic() - began < 60
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and total(page, "warmset:recorder_up") != 0:
            time.sleep(0.5)
            page = httpx.get(f"{up.url}/metrics").text
        assert total(page, "warmset:recorder_up") == 0
        assert "writer is gone" in (tmp_path / "server.log").read_text()

        if attention == "full":
            _dies_in_the_middle(up.url, str(path), tmp_path)
    assert load(trace).requests == 60


def _replays_of_traces(url, home, recording):
    (home / "mooncake.jsonl").write_text(MOONCAKE)
    (home / "long.jsonl").write_text(MOONCAKE.replace("1530", "2041"))
    asked = ("lab", "--url", url, "-o", "json", "--run-dir")
    header = ("--header", f"Authorization: {KEY}")

    refused = warmset(*asked, home / "run0", "--trace", recording)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "status 401" in refused.stderr
    assert "--header 'Authorization: Bearer KEY'" in refused.stderr

    done = warmset(*asked, home / "run1", "--trace", recording, "--concurrency", 8, *header)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["requests"] == 60
    sent = load(home / "run1" / "trace.jsonl.gz")
    # The prefix structure is the recording's: its curve is the same at every size.
    assert lru_curve(sent).hit_ratio_at(DEVICE) == lru_curve(load(recording)).hit_ratio_at(DEVICE)

    done = warmset(*asked, home / "run2", "--trace", home / "mooncake.jsonl", "--seed", 5, *header)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["requests"], result["prompt_tokens"]) == (3, 3730)
    # 512 shared tokens, then the whole second prompt but for what does not fill a block.
    assert result["measured"]["device_hit_tokens"] == 512 + 1500 // BLOCK * BLOCK

    refused = warmset(
        *asked, home / "run3", "--trace", home / "long.jsonl", "--trace-block-tokens", 690, *header
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "request 2 has 2,049 tokens, but the server takes 2,048" in refused.stderr


def _dies_in_the_middle(url, mark, home):
    words = ("lab", "--url", url, "--requests", 400, "--concurrency", 4, "--run-dir", home / "dies")
    lab = subprocess.Popen(
        [sys.executable, "-m", "warmset", *map(str, words), "--header", f"Authorization: {KEY}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    before = served = total(httpx.get(f"{url}/metrics").text, "vllm:request_success_total")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and served < before + 10:
        time.sleep(0.2)
        served = total(httpx.get(f"{url}/metrics").text, "vllm:request_success_total")
    for pid in below(mark, "warmset.vllm.serve"):
        # The server, not the guard that was given the same words and cleans up after it.
        if b"guard.py" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    out, error = lab.communicate(timeout=60)
    assert (lab.returncode, out) == (2, "")
    assert "went away at request" in error
    assert "Traceback" not in error
    assert "never retrieved" not in error


def warmset(*words):
    return subprocess.run(
        [sys.executable, "-m", "warmset", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def below(mark, name):
    """Processes called `name` that are, or descend from, one whose command line has `mark`."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                lines[int(entry.name)], parents[int(entry.name)] = line, int(parent)
    found = []
    for pid, line in lines.items():
        at = pid
        while name in line and at in lines:
            if mark in lines[at]:
                found.append(pid)
                break
            at = parents[at]
    return found
