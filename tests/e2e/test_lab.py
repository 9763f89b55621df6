"""The circle on real vLLM: outputs, predictions, and nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import jsonschema
import pytest

from warmset.lab.backends import HostTier, transfer_config
from warmset.lab.builtin import Shape, builtin
from warmset.lab.model import ModelShape, write_model
from warmset.lab.predict import Tiers, predict
from warmset.lab.replay import replay
from warmset.lab.server import VllmServer, free_port, running
from warmset.lab.workload import Listed, Output, Request, Text, each
from warmset.report.data import schema_text
from warmset.traces import load

pytestmark = pytest.mark.e2e


def total(page, name):
    """The sum of a counter over its labels."""
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name + "{"))


@pytest.fixture(scope="module")
def chat(lab):
    """One lab with every default but the number of requests."""
    return lab(
        "--workload", "chat", "--device-blocks", 160, "--tier-blocks", 400, "--requests", 60, "--seed", 7
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

    measured = chat.result["measured"]
    assert measured["device_hit_tokens"] == total(page, "vllm:prefix_cache_hits_total")
    assert measured["host_hit_tokens"] == total(page, "vllm:external_prefix_cache_hits_total")
    assert chat.result["prompt_tokens"] == total(page, "vllm:prompt_tokens_total")


def test_the_result_follows_its_schema_and_is_saved(chat):
    jsonschema.validate(chat.result, json.loads(schema_text("lab")))
    assert json.loads(Path(chat.result["run_dir"], "result.json").read_text()) == chat.result
    assert chat.result["verdict"] in ("helping", "mixed", "undecided")
    assert chat.result["off"]["verdict"] == "no_tier"


def test_the_recorded_trace_is_the_traffic(chat):
    trace = load(Path(chat.result["run_dir"], "trace.jsonl.gz"))
    assert trace.requests == 60
    assert int(trace.input_tokens.sum()) == chat.result["prompt_tokens"]
    assert trace.block_tokens == 32


def test_nothing_is_left_running_or_in_shared_memory(chat):
    assert chat.left == ()


# Answers of 200 tokens: generated blocks take room on the device and none in the tier.
@pytest.mark.parametrize(
    ("device", "tier", "requests", "output_tokens"), [(100, 300, 20, 200), (160, 100, 60, 40)]
)
def test_one_server_hits_what_is_predicted(vllm, tmp_path, device, tier, requests, output_tokens):
    shape, block = ModelShape(), 32
    size = shape.kv_bytes_per_block(block)
    workload = builtin("chat", Shape((device - 1) * block, tier * block, requests, output_tokens, 7))
    transfer = transfer_config("native", HostTier(tier, size))
    model = write_model(tmp_path / "model", shape)
    server = VllmServer(
        *(sys.executable, model, device, block, size * (device + 1), 2048, 1, transfer),
        environment={"OMP_NUM_THREADS": "1"},
    )
    with running(server, tmp_path / "server.log") as up:
        replay(workload, up.url, up.model)
        time.sleep(1)
        page = httpx.get(f"{up.url}/metrics").text
    predicted = predict(workload, Tiers(block, device, host_chunks=tier))
    assert total(page, "vllm:prefix_cache_hits_total") == predicted.device_hit_tokens > 0
    assert total(page, "vllm:external_prefix_cache_hits_total") == predicted.host_hit_tokens
    # A tier no larger than the device pool holds nothing that the device does not.
    assert (predicted.host_hit_tokens == 0) == (tier <= device)


def test_outputs_are_identical_for_a_model_of_two_groups(lab):
    _identical(lab, "mixed", 4)


@pytest.mark.full
@pytest.mark.parametrize(
    ("attention", "per_chunk"), [("full", 1), ("full", 4), ("sliding", 1), ("sliding", 4), ("mixed", 1)]
)
def test_outputs_are_identical_for_every_chunk_size(lab, attention, per_chunk):
    _identical(lab, attention, per_chunk)


def _identical(lab, attention, per_chunk):
    # Of sliding windows alone the tier keeps each prompt's last window: only a prompt that goes on from there hits.
    workload = "chat" if attention == "sliding" else "rag"
    done = lab(
        *("--attention", attention, "--blocks-per-chunk", per_chunk, "--workload", workload),
        *("--device-blocks", 60, "--tier-blocks", 400, "--requests", 60, "--output-tokens", 8, "--seed", 2),
    )
    assert done.code == 0, done.error
    assert done.result["measured"]["external_hit_tokens"] > 0
    assert done.result["outputs_identical"] is True
    # Models of other attention are not predicted.
    assert done.result["exact"] is (True if attention == "full" else None)
    assert done.left == ()


# With eight in flight the order of completion is the server's: close, but not exact.
@pytest.mark.full
@pytest.mark.parametrize(
    ("tier", "concurrency", "names", "seeds"),
    [
        (400, 1, ("chat", "agent", "rag", "noreuse", "overflow"), (11,)),
        (100, 1, ("chat", "agent", "rag", "noreuse", "overflow"), (12,)),
        (400, 8, ("chat", "agent", "rag"), (1, 2, 3)),
    ],
)
def test_every_workload_in_turn_hits_what_is_predicted(vllm, tmp_path, tier, concurrency, names, seeds):
    device, block, requests, shape = 160, 32, 80, ModelShape()
    size = shape.kv_bytes_per_block(block)
    workload = in_turn(
        builtin(name, Shape((device - 1) * block, tier * block, requests, None, seed))
        for name in names
        for seed in seeds
    )
    server = VllmServer(
        *(sys.executable, write_model(tmp_path / "model", shape), device, block, size * (device + 1), 2048),
        concurrency,
        transfer_config("native", HostTier(tier, size)),
        environment={"OMP_NUM_THREADS": "1"},
    )
    with running(server, tmp_path / "server.log") as up:
        answers = replay(workload, up.url, up.model, concurrency=concurrency)
        time.sleep(1)
        page = httpx.get(f"{up.url}/metrics").text
    predicted = predict(workload, Tiers(block, device, host_chunks=tier, concurrency=concurrency))
    device_hits = total(page, "vllm:prefix_cache_hits_total")
    host_hits = total(page, "vllm:external_prefix_cache_hits_total")
    differences = []
    for at in range(0, len(workload), requests):
        part = range(at, at + requests)
        hits = sum(sum(predicted.per_request[i]) for i in part)
        differences.append(
            (sum(answers[i].cached_tokens for i in part) - hits) / sum(len(answers[i].prompt) for i in part)
        )
    if concurrency == 1:
        assert (device_hits, host_hits) == (predicted.device_hit_tokens, predicted.host_hit_tokens)
        assert [answer.cached_tokens for answer in answers] == [sum(one) for one in predicted.per_request]
    assert max(map(abs, differences)) <= 0.02, differences
    # A tier no larger than the device pool holds nothing that the device does not.
    assert (host_hits == 0) == (tier <= device)


def in_turn(workloads):
    """One workload of several that have nothing in common."""
    requests = []
    for number, workload in enumerate(workloads):
        first = len(requests)
        for request in each(workload):
            pieces = tuple(
                Text((number, *piece.name), piece.tokens)
                if isinstance(piece, Text)
                else Output(first + piece.request, piece.tokens)
                for piece in request.pieces
            )
            session = None if request.session is None else (number << 32) + request.session
            requests.append(Request(pieces, request.output_tokens, session))
    return Listed("in turn", 0, requests)


@pytest.mark.full
@pytest.mark.parametrize("backend", ["native+disk", "native+warmset"])
def test_the_disk_tier_answers_what_the_host_lost(lab, backend):
    words = ("--backend", backend, "--tier-blocks", 200, "--requests", 80, "--seed", 7)
    done = lab(*words, "--port", free_port())
    assert done.code == 0, done.error
    assert done.result["predicted"] == done.result["measured"]
    assert done.result["measured"]["disk_hit_tokens"] > 0
    assert done.result["outputs_identical"] is True
    assert not Path(done.result["run_dir"], "disk").exists()


@pytest.mark.full
def test_lmcache_answers_beside_vllm(lab):
    pytest.importorskip("lmcache")
    done = lab("--backend", "lmcache", "--requests", 60, "--seed", 7)
    assert done.code == 0, done.error
    measured = done.result["measured"]
    assert measured["host_hit_tokens"] == measured["external_hit_tokens"] > 0
    assert done.result["outputs_identical"] is True
    assert "lmcache_mp_" in Path(done.result["run_dir"], "lmcache.end.prom").read_text()
    assert done.left == ()


@pytest.mark.full
def test_lmcache_in_process_is_found_to_be_inert(lab):
    pytest.importorskip("lmcache")
    done = lab("--backend", "lmcache-inprocess", "--requests", 60, "--seed", 7)
    assert done.code == 0, done.error
    assert done.result["measured"]["external_hit_tokens"] == 0
    assert done.result["verdict"] == "inert"


@pytest.mark.parametrize(
    ("file", "how"),
    [
        ("off.log", signal.SIGINT),
        # Every further phase: replay, the end of the first server, the start of the second, and so on.
        *(
            pytest.param(file, how, marks=pytest.mark.full)
            for file, how in (
                ("off.log", signal.SIGKILL),
                ("off.start.prom", signal.SIGINT),
                ("off.end.prom", signal.SIGINT),
                ("on.log", signal.SIGTERM),
                ("on.start.prom", signal.SIGINT),
                ("on.start.prom", signal.SIGKILL),
                ("on.end.prom", signal.SIGINT),
            )
        ),
    ],
)
def test_nothing_is_left_when_the_lab_is_ended(vllm, traces_of, tmp_path, file, how):
    # Short: sockets go below it, and their paths are limited.
    traces, directory, scratch = traces_of(), tmp_path / "run", Path(tempfile.mkdtemp())
    words = [sys.executable, "-m", "warmset", "lab", "--requests", "60", "--run-dir", str(directory)]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
        # Whoever started the tests in the background may have had Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not _there(directory / file):
        time.sleep(0.05)
    # Into the phase that begins with the file, not onto its first moment.
    time.sleep(0.3)
    os.kill(process.pid, how)
    _, error = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    if how == signal.SIGINT:
        assert error.rstrip().endswith("interrupted")
        assert "Traceback" not in error
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and (traces.left(str(directory)) or any(scratch.iterdir())):
        time.sleep(0.5)
    assert traces.left(str(directory)) == ()
    scratch.rmdir()


def _there(path):
    # A server's log is made before the server; its engine is what matters.
    return path.exists() and (path.suffix != ".log" or re.search("EngineCore|Engine", path.read_text()))
