"""`warmset lab --url` against servers that are not what they should be, and one that is enough of a vLLM."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from warmset.errors import InputError
from warmset.lab.record import Lab
from warmset.lab.remote import run_remote
from warmset.report.lab import payload

BLOCK = 32
PAGE = """vllm:cache_config_info{block_size="32",num_gpu_blocks="160"} 1.0
vllm:prompt_tokens_total{model_name="m"} %d
vllm:prefix_cache_queries_total{model_name="m"} %d
vllm:prefix_cache_hits_total{model_name="m"} 0
vllm:request_success_total{model_name="m",finished_reason="length"} %d
"""
MOONCAKE = (
    '{"timestamp": 0, "input_length": 700, "output_length": 4, "hash_ids": [1, 2]}\n'
    '{"timestamp": 500, "input_length": 900, "output_length": 2, "hash_ids": [1, 3]}\n'
)


class Fake(BaseHTTPRequestHandler):
    """Answers as vLLM does, until it is told not to."""

    def do_GET(self):
        server = self.server
        server.keys.append(self.headers.get("Authorization"))
        if server.key and self.headers.get("Authorization") != server.key:
            return self._answer(401, '{"error": "Unauthorized"}')
        if self.path == "/v1/models":
            return self._answer(200, server.models)
        if server.page is not None:
            return self._answer(200 if server.page else 404, server.page)
        return self._answer(200, PAGE % (server.tokens, server.tokens, server.served))

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            number = server.served
            server.served += 1
        if number >= server.dies_at:
            self.close_connection = True
            self.connection.close()
            return None
        if server.completion is not None:
            return self._answer(200, server.completion)
        server.tokens += len(body["prompt"])
        return self._answer(200, json.dumps({"choices": [{"token_ids": [300] * body["max_tokens"]}]}))

    def _answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words):
        """Quiet."""


@pytest.fixture
def server():
    fake = ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    fake.lock = threading.Lock()
    fake.key, fake.keys, fake.completion, fake.page = None, [], None, None
    fake.tokens = fake.served = 0
    fake.dies_at = 10**9
    fake.models = json.dumps({"data": [{"id": "m", "max_model_len": 2048}]})
    fake.url = f"http://127.0.0.1:{fake.server_address[1]}"
    threading.Thread(target=fake.serve_forever, daemon=True).start()
    yield fake
    fake.shutdown()
    fake.server_close()


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(MOONCAKE)
    return path


def test_a_trace_is_replayed_with_its_lengths(server, trace, tmp_path):
    result = run_remote(Lab(trace=trace, run_dir=tmp_path / "run"), server.url + "/v1/")
    assert result.requests == 2
    assert result.prompt_tokens == server.tokens == 1600
    # The first 512 tokens are shared; the fake computes everything, the prediction does not.
    assert result.predicted.device_hit_tokens == 512
    assert [note.split()[0] for note in result.notes] == ["512", "predicted", "the"]


def test_a_server_that_has_served_before_is_noted(server, trace, tmp_path):
    server.tokens = 5
    result = run_remote(Lab(trace=trace, run_dir=tmp_path / "run"), server.url)
    assert any("had served other prompts before" in note for note in result.notes)


def test_the_key_goes_with_every_request_and_into_no_file(server, trace, tmp_path):
    server.key = "Bearer s3cret"
    with pytest.raises(InputError, match="answered with status 401") as found:
        run_remote(Lab(trace=trace, run_dir=tmp_path / "no"), server.url)
    assert "--header 'Authorization: Bearer KEY'" in found.value.hint
    server.keys.clear()
    run_remote(Lab(trace=trace, run_dir=tmp_path / "run"), server.url, {"Authorization": server.key})
    assert set(server.keys) == {server.key}
    assert not [path for path in (tmp_path / "run").iterdir() if b"s3cret" in path.read_bytes()]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ("<html>", "something that is not JSON"),
        ("[" * 100_000, "something that is not JSON"),
        ("[]", "names no model"),
        ("{}", "names no model"),
        ('{"data": []}', "names no model"),
        ('{"data": [{}]}', "names no model"),
        ('{"data": 7}', "names no model"),
        ("null", "names no model"),
    ],
)
def test_what_is_not_an_openai_server_is_named(server, trace, tmp_path, models, said):
    server.models = models
    with pytest.raises(InputError, match=said):
        run_remote(Lab(trace=trace, run_dir=tmp_path / "run"), server.url)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "completion", ["<html>", "[]", "{}", '{"choices": []}', '{"choices": [{"token_ids": 4}]}', "null"]
)
def test_an_answer_that_is_no_completion_is_named(server, trace, tmp_path, completion):
    server.completion = completion
    with pytest.raises(InputError, match="answer to request 0 is no completion"):
        run_remote(Lab(trace=trace, run_dir=tmp_path / "run"), server.url)


def test_a_server_without_metrics_is_named(server, trace, tmp_path):
    server.page = ""
    with pytest.raises(InputError, match="/metrics` answered with status 404") as found:
        run_remote(Lab(trace=trace, run_dir=tmp_path / "run"), server.url)
    assert "--enable-metrics" in found.value.hint


SGLANG = 'sglang:prompt_tokens_total{model_name="m"} 100\nsglang:cached_tokens_total{model_name="m"} 10\n'


@pytest.mark.parametrize("page", [SGLANG, "# nothing\n"])
def test_a_server_of_another_kind_is_replayed_and_measured_as_far_as_it_says(server, trace, tmp_path, page):
    server.page = page
    result = run_remote(Lab(trace=trace, run_dir=tmp_path / "run"), server.url)
    assert result.requests == 2
    assert result.predicted.device_hit_tokens is None
    assert result.exact is None
    payload(result)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_server_that_dies_in_the_middle_is_said_once(server, tmp_path, caplog, concurrency):
    server.dies_at = 5
    lab = Lab("noreuse", requests=40, concurrency=concurrency, run_dir=tmp_path / "run")
    with pytest.raises(InputError, match=r"went away at request \d+: RemoteProtocolError"):
        run_remote(lab, server.url)
    assert caplog.text == ""


def test_a_request_longer_than_the_server_takes_is_named_before_any_is_sent(server, trace, tmp_path):
    server.models = server.models.replace("2048", "800")
    with pytest.raises(InputError, match=re.escape("request 1 has 902 tokens, but the server takes 800")):
        run_remote(Lab(trace=trace, run_dir=tmp_path / "run"), server.url)
    assert server.served == 0
