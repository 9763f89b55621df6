"""The recorder inside real vLLM, beside the offloading connector."""

import gzip
import json
import sys
import time

import httpx
import pytest

from warmset.curves.exact import lru_curve
from warmset.lab.backends import HostTier, transfer_config
from warmset.lab.builtin import Shape, builtin
from warmset.lab.model import ModelShape, write_model
from warmset.lab.replay import replay
from warmset.lab.server import VllmServer, running
from warmset.lab.workload import each
from warmset.traces import load

pytestmark = pytest.mark.e2e
BLOCK, DEVICE, TIER = 32, 160, 400


@pytest.fixture(scope="module")
def recorded(vllm, tmp_path_factory):
    """Traffic that a server recorded: the workload, the page of /metrics, and the trace's path."""
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
    workload = builtin("chat", Shape((DEVICE - 1) * BLOCK, TIER * BLOCK, 60, None, 7))
    model = write_model(home / "model", shape)
    server = VllmServer(sys.executable, model, DEVICE, BLOCK, size * (DEVICE + 1), 2048, 1, both)
    with running(server, home / "server.log") as up:
        replay(workload, up.url, up.model)
        deadline, page = time.monotonic() + 60, ""
        while time.monotonic() < deadline and "recorder_requests{" not in page:
            time.sleep(1)
            page = httpx.get(f"{up.url}/metrics").text
        time.sleep(3)
        page = httpx.get(f"{up.url}/metrics").text
    return workload, page, path


def samples(page, name):
    for line in page.splitlines():
        if line.startswith(name + "{"):
            labels, value = line[len(name) + 1 :].rsplit("} ", 1)
            yield dict(part.split("=", 1) for part in labels.replace('"', "").split(",")), float(value)


def test_every_request_is_recorded(recorded):
    workload, _, path = recorded
    trace = load(path)
    assert trace.input_tokens.tolist() == [request.input_tokens for request in each(workload)]
    assert trace.output_tokens.tolist() == [request.output_tokens for request in each(workload)]
    assert trace.block_tokens == BLOCK


def test_the_live_curve_equals_the_offline_curve(recorded):
    _, page, path = recorded
    curve = lru_curve(load(path))
    points = list(samples(page, "warmset:recorder_hit_ratio"))
    assert len(points) >= 6
    for labels, value in points:
        assert value == curve.hit_ratio_at(int(labels["capacity_blocks"])), labels
        assert int(labels["capacity_blocks"]) == round(float(labels["device_pools"]) * DEVICE)


def test_device_hits_are_recorded_and_the_tier_beside_still_loads(recorded):
    _, page, path = recorded
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()][1:]
    hits = sum(value for _, value in samples(page, "vllm:prefix_cache_hits_total"))
    assert sum(row["hit_device"] for row in rows) == hits > 0
    assert sum(value for _, value in samples(page, "vllm:external_prefix_cache_hits_total")) > 0
