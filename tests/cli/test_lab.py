"""`warmset lab` before anything is started: every fault is said, with the fix."""

import socket

import pytest

from warmset.lab import preflight
from warmset.lab.preflight import check_shared_memory


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def installed(monkeypatch):
    """As if vLLM were installed."""
    monkeypatch.setattr(preflight, "check_python", lambda python: None)


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["--tier-blocks", "0"], "`--tier-blocks 0`"),
        (["--device-blocks", "0"], "`--device-blocks 0`"),
        (["--device-blocks", "-5"], "`--device-blocks -5`"),
        (["--concurrency", "0"], "`--concurrency 0`"),
        (["--requests", "0"], "`--requests 0`"),
        (["--requests", "100000000"], "`100,000,000` requests"),
        (["--output-tokens", "0"], "`--output-tokens 0`"),
        (["--device-blocks", "1000000000", "--tier-blocks", "9"], "of memory"),
        (["--url", "http://127.0.0.1:9", "--concurrency", "0"], "`--concurrency 0`"),
        (["--block-tokens", "16"], "`--block-tokens 16`"),
        (["--blocks-per-chunk", "500"], "`400` blocks holds no chunk of 500"),
        (["--model", "/no/such/model"], "`/no/such/model`"),
        (["--device-blocks", "20"], "`608` tokens is too small"),
        (["--tier-blocks", "1000000000"], "of shared memory"),
        (["--run-dir", "/proc"], "`/proc` is not empty"),
        (["--run-dir", "/proc/none/run"], "no run directory can be made"),
        (["--run-dir", "/etc/passwd/run"], "Not a directory: `/etc/passwd/run`"),
        (["--url", "ftp://x"], "`ftp://x` is not a URL"),
        (["--url", "http://127.0.0.1:9", "--requests", "2"], "no server answers at `http://127.0.0.1:9/"),
        (["--url", "http://[::1", "--requests", "2"], "`http://[::1` is not a URL"),
        (["--url", "http://h:99999"], "`http://h:99999` is not a URL"),
        (["--url", "http://", "--requests", "2"], "is not a URL"),
        (["--url", "http://x", "--header", "a b: c"], "`a b` is not a name of a header"),
        (["--url", "http://x", "--header", "Authorization: Bearer ключ"], "letters that no header takes"),
        (["--url", "http://x", "--header", "X: a\nY: b"], "letters that no header takes"),
        (["--url", "http://x", "--header", "nothing"], "header `nothing` has no name"),
    ],
)
def test_what_cannot_work_is_refused_with_the_value_and_a_hint(warmset, installed, arguments, value):
    ran = warmset("lab", *arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert value in ran.err
    assert "hint:" in ran.err


def test_a_request_larger_than_the_pool_is_named_before_the_start(warmset, installed, tmp_path):
    trace = tmp_path / "t.jsonl"
    trace.write_text(
        '{"timestamp":0,"input_length":6000,"output_length":4,"hash_ids":[1,2,3,4,5,6,7,8,9,10,11,12]}\n'
    )
    ran = warmset("lab", "--trace", trace)
    assert ran.code == 2
    assert "needs 188 blocks, but a device pool of `160` blocks has 159 to use" in ran.err
    assert "--device-blocks 189" in ran.err


LONG = (
    '{"timestamp":0,"input_length":700,"output_length":8,"hash_ids":[1,2]}\n'
    '{"timestamp":9,"input_length":2041,"output_length":8,"hash_ids":[1,3,4]}\n'
)


def test_what_a_trace_does_not_say_is_asked_for_and_taken(warmset, installed, tmp_path):
    trace = tmp_path / "t.jsonl"
    trace.write_text(LONG)
    ran = warmset("lab", "--trace", f"mooncake:{trace}")
    assert ran.code == 2
    assert "`--trace-block-tokens 512`" in ran.err
    ran = warmset("lab", "--trace", trace, "--trace-block-tokens", 690, "--device-blocks", 33)
    assert ran.code == 2
    assert "request 1 has 2,049 tokens" in ran.err


def test_a_trace_that_runs_backwards_can_be_sorted(warmset, installed, tmp_path):
    trace = tmp_path / "t.jsonl"
    row = '{"timestamp":%d,"input_length":9000,"output_length":8,"hash_ids":%s}\n'
    trace.write_text(row % (9000, list(range(18))) + row % (2000, list(range(18))))
    ran = warmset("lab", "--trace", trace, "--trace-block-tokens", 512)
    assert (ran.code, "`--sort`" in ran.err) == (2, True)
    ran = warmset("lab", "--trace", trace, "--trace-block-tokens", 512, "--sort")
    assert (ran.code, "request 1 has 9,008 tokens" in ran.err) == (2, True)


def test_reading_options_need_a_trace(warmset, installed):
    ran = warmset("lab", "--trace-block-tokens", 512)
    assert ran.code == 2
    assert "`--trace-block-tokens` belongs to a trace" in ran.err


def test_a_trace_that_is_not_there_is_named(warmset, installed):
    ran = warmset("lab", "--trace", "/no/such/trace.jsonl")
    assert ran.code == 2
    assert "`/no/such/trace.jsonl`" in ran.err


def test_without_vllm_the_install_command_is_offered(warmset, monkeypatch):
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda name: None)
    ran = warmset("lab")
    assert ran.code == 2
    assert "vLLM is not installed" in ran.err
    assert "pip install 'warmset[lab]'" in ran.err


def test_an_interpreter_that_is_none_is_refused(warmset):
    ran = warmset("lab", "--python", "/no/python")
    assert ran.code == 2
    assert "`/no/python` is not a Python that runs" in ran.err


def test_no_shared_memory_at_all(monkeypatch, tmp_path):
    from warmset.errors import InputError

    monkeypatch.setattr(preflight, "SHM", tmp_path / "none")
    with pytest.raises(InputError, match="there is no shared memory"):
        check_shared_memory(1)


def test_a_taken_port_is_refused(warmset, installed):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = warmset("lab", "--port", port)
    assert ran.code == 2
    assert f"port `{port}` is taken" in ran.err


def test_a_server_that_cannot_start_says_why(warmset, installed):
    # This interpreter has no vLLM, or has one: without a usable model either way.
    ran = warmset("lab", "--python", "/bin/false", "--requests", "2")
    assert ran.code == 2
    assert "the server did not start" in ran.err
    assert "log is in" in ran.err
