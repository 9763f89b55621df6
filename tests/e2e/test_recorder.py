"""One server with the recorder beside the offloading connector: what the lab says of it, and what was recorded."""

import gzip
import json
import shutil
import subprocess
import sys
import time
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
    """

    lab: dict
    page: str
    trace: Path
    crowd_hits: float
    crowd: object


@pytest.fixture(scope="module")
def recorded(vllm, tmp_path_factory):
    home = tmp_path_factory.mktemp("recorder")
    path = home / "traffic.jsonl.gz"
    shape = ModelShape()
    size = shape.kv_bytes_per_block(BLOCK)
    recorder = {
        "kv_connector": "TrafficRecorder",
        "kv_connector_module_path": "warmset.vllm.recorder",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"path": str(path)},
    }
    both = {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "connectors": [recorder, transfer_config("native", HostTier(TIER, size))]
        },
    }
    model = write_model(home / "model", shape)
    server = VllmServer(
        sys.executable, model, DEVICE, BLOCK, size * (DEVICE + 1), 2048, 8, both, environment=ONE
    )
    crowd = builtin("rag", Shape((DEVICE - 1) * BLOCK, TIER * BLOCK, 120, None, 5))
    with running(server, home / "server.log") as up:
        words = [sys.executable, "-m", "warmset", "lab", "--url", up.url, "--requests", "80", "--seed", "7"]
        words += ["--run-dir", str(home / "run"), "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        deadline, page = time.monotonic() + 60, ""
        while time.monotonic() < deadline and total(page, "warmset:recorder_requests") != 80:
            time.sleep(1)
            page = httpx.get(f"{up.url}/metrics").text
        shutil.copy(path, home / "lab.jsonl.gz")
        replay(crowd, up.url, up.model, concurrency=8)
        time.sleep(1)
        after = httpx.get(f"{up.url}/metrics").text
    hits = sum(
        total(after, name) - total(page, name)
        for name in ("vllm:prefix_cache_hits_total", "vllm:external_prefix_cache_hits_total")
    )
    return Recorded(json.loads(done.stdout), page, home / "lab.jsonl.gz", hits, crowd)


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


def test_the_lab_predicts_the_device_of_a_server_that_runs_already(recorded):
    result = recorded.lab
    jsonschema.validate(result, json.loads(schema_text("lab")))
    assert result["off"] is None
    assert result["device_blocks"] == DEVICE
    # 0.32 does not say how large its host tier is, so only the device is predicted.
    assert result["predicted"]["device_hit_tokens"] == result["measured"]["device_hit_tokens"] > 0
    assert result["measured"]["host_hit_tokens"] > 0


def test_every_request_is_recorded(recorded):
    trace, sent = load(recorded.trace), load(Path(recorded.lab["run_dir"], "trace.jsonl.gz"))
    assert trace.input_tokens.tolist() == sent.input_tokens.tolist()
    assert trace.output_tokens.tolist() == sent.output_tokens.tolist()
    assert trace.block_tokens == BLOCK
    assert lru_curve(trace).hit_ratio_at(DEVICE) == lru_curve(sent).hit_ratio_at(DEVICE)


def test_the_live_curve_equals_the_offline_curve(recorded):
    curve = lru_curve(load(recorded.trace))
    points = list(samples(recorded.page, "warmset:recorder_hit_ratio"))
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
