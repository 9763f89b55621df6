"""The circle on real vLLM: outputs, predictions, and nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from warmset.lab.backends import HostTier, transfer_config
from warmset.lab.model import ModelShape, write_model
from warmset.lab.server import VllmServer, running
from warmset.report.data import schema_text
from warmset.traces import load

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def chat(lab):
    """One lab with every default but the number of requests."""
    return lab(
        "--workload", "chat", "--device-blocks", 160, "--tier-blocks", 400, "--requests", 80, "--seed", 7
    )


def test_predictions_are_exact_and_outputs_identical(chat):
    assert chat.code == 0, chat.error
    r = chat.result
    assert r["predicted"]["device_hit_tokens"] == r["measured"]["device_hit_tokens"] > 0
    assert r["predicted"]["host_hit_tokens"] == r["measured"]["host_hit_tokens"] > 0
    assert r["predicted_off"]["device_hit_tokens"] == r["measured_off"]["device_hit_tokens"]
    assert r["exact"] is True
    assert r["outputs_identical"] is True


def test_the_counters_are_the_servers_own(chat):
    page = Path(chat.result["run_dir"], "on.end.prom").read_text()

    def total(name):
        return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name + "{"))

    measured = chat.result["measured"]
    assert measured["device_hit_tokens"] == total("vllm:prefix_cache_hits_total")
    assert measured["host_hit_tokens"] == total("vllm:external_prefix_cache_hits_total")
    assert chat.result["prompt_tokens"] == total("vllm:prompt_tokens_total")


def test_the_result_follows_its_schema_and_is_saved(chat):
    jsonschema.validate(chat.result, json.loads(schema_text("lab")))
    assert json.loads(Path(chat.result["run_dir"], "result.json").read_text()) == chat.result
    assert chat.result["verdict"] in ("helping", "mixed", "undecided")
    assert chat.result["off"]["verdict"] == "no_tier"


def test_the_recorded_trace_is_the_traffic(chat):
    trace = load(Path(chat.result["run_dir"], "trace.jsonl.gz"))
    assert trace.requests == 80
    assert int(trace.input_tokens.sum()) == chat.result["prompt_tokens"]
    assert trace.block_tokens == 32


def test_nothing_is_left_running_or_in_shared_memory(chat):
    assert chat.left == ()


def test_a_tier_no_larger_than_the_device_pool_hits_nothing(lab):
    # Long answers: generated blocks take room on the device and none in the tier.
    done = lab("--tier-blocks", 100, "--output-tokens", 200, "--requests", 24, "--seed", 3)
    assert done.code == 0, done.error
    assert done.result["measured"]["host_hit_tokens"] == 0
    assert done.result["exact"] is True
    assert done.result["outputs_identical"] is True
    assert done.left == ()


def test_with_eight_in_flight_the_prediction_is_close(lab):
    done = lab("--workload", "rag", "--concurrency", 8, "--requests", 120, "--seed", 5)
    assert done.code == 0, done.error
    assert abs(done.result["difference_ratio"]) <= 0.02
    assert done.result["measured"]["host_hit_tokens"] > 0


@pytest.mark.parametrize("attention", ["sliding", "mixed"])
def test_outputs_are_identical_across_eviction_and_reload(lab, attention):
    _identical(lab, attention, 4)


@pytest.mark.full
@pytest.mark.parametrize(("attention", "per_chunk"), [("full", 4), ("sliding", 1), ("mixed", 1)])
def test_outputs_are_identical_for_every_chunk_size(lab, attention, per_chunk):
    _identical(lab, attention, per_chunk)


def _identical(lab, attention, per_chunk):
    done = lab(
        *("--attention", attention, "--blocks-per-chunk", per_chunk, "--workload", "rag"),
        *("--device-blocks", 60, "--tier-blocks", 400, "--requests", 60, "--output-tokens", 8, "--seed", 2),
    )
    assert done.code == 0, done.error
    assert done.result["measured"]["external_hit_tokens"] > 0
    assert done.result["outputs_identical"] is True
    assert done.left == ()


@pytest.mark.full
@pytest.mark.parametrize("workload", ["agent", "rag", "noreuse", "overflow"])
@pytest.mark.parametrize("tier_blocks", [100, 400])
def test_every_workload_is_predicted_exactly(lab, workload, tier_blocks):
    done = lab("--workload", workload, "--tier-blocks", tier_blocks, "--requests", 100, "--seed", 11)
    assert done.code == 0, done.error
    assert done.result["exact"] is True


@pytest.mark.full
@pytest.mark.parametrize("backend", ["native+disk", "native+warmset"])
def test_the_disk_tier_answers_what_the_host_lost(lab, backend):
    done = lab("--backend", backend, "--tier-blocks", 200, "--requests", 80, "--seed", 7)
    assert done.code == 0, done.error
    assert done.result["measured"]["disk_hit_tokens"] > 0
    assert done.result["outputs_identical"] is True
    assert not Path(done.result["run_dir"], "disk").exists()


def test_against_a_server_that_runs_already(vllm, tmp_path):
    shape = ModelShape()
    size = shape.kv_bytes_per_block(32)
    transfer = transfer_config("native", HostTier(400, size))
    model = write_model(tmp_path / "model", shape)
    server = VllmServer(sys.executable, model, 160, 32, size * 161, 2048, 1, transfer)
    with running(server, tmp_path / "server.log") as up:
        words = [sys.executable, "-m", "warmset", "lab", "--url", up.url, "--requests", "80", "--seed", "7"]
        words += ["--run-dir", str(tmp_path / "run"), "-o", "json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    jsonschema.validate(result, json.loads(schema_text("lab")))
    assert result["off"] is None
    assert result["device_blocks"] == 160
    # 0.32 does not say how large its host tier is, so only the device is predicted.
    assert result["predicted"]["device_hit_tokens"] == result["measured"]["device_hit_tokens"] > 0
    assert result["measured"]["host_hit_tokens"] > 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_lab_is_ended(vllm, traces_of, tmp_path, how):
    traces, directory = traces_of(), tmp_path / "run"
    words = [sys.executable, "-m", "warmset", "lab", "--requests", "20", "--run-dir", str(directory)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = directory / "off.log"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (
        log.exists() and re.search("EngineCore|Engine", log.read_text())
    ):
        time.sleep(0.2)
    os.kill(process.pid, how)
    _, error = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted" in error
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and traces.left(str(directory)):
        time.sleep(0.5)
    assert traces.left(str(directory)) == ()
