"""`warmset measure`, `snapshot`, `watch` and `export`: exit codes, keys, sources and hostile servers."""

import contextlib
import fcntl
import gzip
import json
import os
import pty
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest
import yaml

from warmset.report.data import schema_text


def _pair(shared: Path, name: str) -> tuple[str, str]:
    folder = shared / "metrics"
    return str(folder / f"{name}.start.prom"), str(folder / f"{name}.end.prom")


class Server(BaseHTTPRequestHandler):
    """Serves good pages that grow, and every kind of bad answer."""

    page: ClassVar[str] = ""
    hits: ClassVar[int] = 0

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if path == "/loop":
            self.send_response(302)
            self.send_header("Location", "/loop")
            self.end_headers()
        elif path == "/html":
            self._send(b"<!DOCTYPE html><title>Grafana</title>", "text/html")
        elif path == "/missing/metrics":
            self.send_error(404)
        elif path == "/secret":
            ok = self.headers.get("Authorization") == "Bearer hush"
            self._send(type(self).page.encode(), "text/plain") if ok else self.send_error(401)
        elif path == "/slow":
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(100):
                    self.wfile.write(b"a 1\n")
                    self.wfile.flush()
                    time.sleep(0.1)
            except OSError:
                pass
        elif path == "/huge":
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(200):
                    self.wfile.write(b"a" * 2**20)
            except OSError:
                pass
        elif path == "/bomb":
            self._send(gzip.compress(b"a" * (200 * 2**20), 1), "text/plain", gzip_=True)
        elif path == "/grow":
            type(self).hits += 1
            n = 40 * type(self).hits
            lines = [
                f'vllm:prompt_tokens_total{{engine="0",model_name="m"}} {1000 * n}',
                f'vllm:external_prefix_cache_queries_total{{engine="0",model_name="m"}} {1000 * n}',
                f'vllm:external_prefix_cache_hits_total{{engine="0",model_name="m"}} {500 * n}',
                f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="1.0",model_name="m"}} {n}',
                f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {n}',
                f'vllm:time_to_first_token_seconds_count{{engine="0",model_name="m"}} {n}',
                f'vllm:time_to_first_token_seconds_sum{{engine="0",model_name="m"}} {n / 2}',
            ]
            self._send(("\n".join(lines) + "\n").encode(), "text/plain")
        else:
            self._send(gzip.compress(type(self).page.encode()), "text/plain", gzip_=True)

    def _send(self, body: bytes, kind: str, *, gzip_: bool = False) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if gzip_:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class names it so
        pass


@pytest.fixture
def url(shared: Path) -> Iterator[str]:
    Server.page = (shared / "metrics" / "chat_on.end.prom").read_text()
    Server.hits = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_the_documented_commands(warmset: Callable[..., Any], shared: Path, tmp_path: Path) -> None:
    saved = tmp_path / "before.json"
    first = warmset("measure", *_pair(shared, "chat_off"), "--save", saved)
    assert first.code == 0
    assert "no_tier" in first.out
    ran = warmset("measure", *_pair(shared, "chat_on"), "--baseline", saved, "-o", "json")
    said = ran.valid("measure")
    jsonschema.validate(json.loads(saved.read_text()), json.loads(schema_text("measure")))
    assert (ran.code, said["verdict"], said["confidence"]) == (0, "helping", "high")
    assert said["window"]["requests"] == 150
    assert said["meters"]["external_hit_tokens"] == 112_640
    assert said["meters"]["prompt_tokens"] == 306_968
    assert said["meters"]["hit_ratio"]["device"]["value"] == pytest.approx(116_864 / 306_968)
    assert said["meters"]["ttft_p50_seconds"]["value"] == pytest.approx(0.223, abs=1e-3)
    assert said["meters"]["ttft_p99_seconds"]["value"] == pytest.approx(1.75)
    assert said["baseline"]["meters"]["ttft_p99_seconds"]["value"] == pytest.approx(2.3125)
    assert set(said["baseline"]["meters"]) == set(said["meters"])


def test_gate(warmset: Callable[..., Any], shared: Path, tmp_path: Path) -> None:
    pair = _pair(shared, "chat_slow")
    saved = tmp_path / "slow.json"
    ran = warmset("measure", *pair, "--fail-on", "hurting,inert", "-o", "json", "--save", saved)
    assert ran.code == 1
    assert ran.json()["verdict"] == "hurting"
    assert saved.is_file()
    assert warmset("measure", *pair, "--fail-on", "inert").code == 0
    assert warmset("measure", *pair, "--fail-on", "hurts").code == 2
    assert warmset("measure", *_pair(shared, "chat_off"), "--fail-on", "hurting").code == 0


def test_undecided_exits_3_and_saves(warmset: Callable[..., Any], shared: Path, tmp_path: Path) -> None:
    start, _ = _pair(shared, "chat_on")
    saved = tmp_path / "x.json"
    ran = warmset("measure", start, start, "--save", saved, "-o", "json")
    assert (ran.code, ran.json()["verdict"]) == (3, "undecided")
    assert saved.is_file()


def test_markdown_and_table(warmset: Callable[..., Any], shared: Path) -> None:
    assert warmset("measure", *_pair(shared, "chat_on"), "-o", "md").out.startswith("**helping")
    assert "TTFT p99" in warmset("measure", *_pair(shared, "chat_on")).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.prom", "no.prom"], "no.prom"),
        ([], "no source"),
        (["http://127.0.0.1:1", "--timeout", "2s"], "nothing answers"),
        (["http://nowhere.invalid:1"], "host name is not known"),
        (["ftp://x"], "ftp://x"),
        (["a", "b", "c"], "too many"),
        (["--prometheus", "http://127.0.0.1:1", "--after", "5"], "no end"),
        (["a.prom", "--before", "2h..1h"], "--prometheus"),
        (["a.prom", "--threshold", "x=1"], "unknown threshold"),
    ],
)
def test_bad_usage(warmset: Callable[..., Any], arguments: list[str], said: str) -> None:
    ran = warmset("measure", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert "hint:" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    "text", ["{}", "[", '{"schema": "warmset.measure/1"}', '{"schema":"warmset.measure/1","meters":[]}']
)
def test_bad_baseline(warmset: Callable[..., Any], shared: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    ran = warmset("measure", *_pair(shared, "chat_on"), "--baseline", path)
    assert ran.code == 2
    assert "baseline" in ran.err


_SAVED = "a baseline is a measurement that was saved before the change, such as without the tier: `warmset measure "


@pytest.mark.parametrize(
    ("text", "said", "saved_as"),
    [
        (None, "cannot be read: No such file or directory", "b.json"),
        ("", "is empty", "before.json"),
        ("nothing", "is not JSON", "before.json"),
        ("[1]", "is not a saved measurement (warmset.measure/1) but `list`", "before.json"),
        (
            '{"schema": "warmset.plan/1"}',
            "is not a saved measurement (warmset.measure/1) but `warmset.plan/1`",
            "before.json",
        ),
        ('{"schema": "warmset.measure/1"}', "is damaged: KeyError 'meters'", "before.json"),
    ],
)
def test_how_a_baseline_is_made(
    warmset: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    said: str,
    saved_as: str,
) -> None:
    """In the words of the source that is measured; a file of another kind is not offered to be written over."""
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("b.json").write_text(text)
    for source, again in (
        (["http://127.0.0.1:9"], "http://127.0.0.1:9 --for 10m"),
        (["http://user:secret@127.0.0.1:9", "host:1"], "http://127.0.0.1:9 host:1 --for 10m"),
        (["a.prom", "b.prom"], "START.prom END.prom"),
        (["--targets", "hosts.txt"], "--targets hosts.txt --for 10m"),
        (["--prometheus", "http://p:9090"], "--prometheus http://p:9090 --after 2h..1h"),
    ):
        ran = warmset("measure", *source, "--baseline", "b.json")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"error: baseline `b.json` {said}\n\nhint: {_SAVED}{again} --save {saved_as}`\n"


def test_running_server(warmset: Callable[..., Any], url: str) -> None:
    ran = warmset("measure", url, "-o", "json")
    said = ran.json()
    assert (ran.code, said["verdict"]) == (0, "helping")
    assert said["window"]["since_start"]
    assert said["window"]["seconds"] > 0


def test_sampling(warmset: Callable[..., Any], url: str) -> None:
    ran = warmset("measure", f"{url}/grow", "--for", "2s", "-o", "json")
    said = ran.json()
    assert (ran.code, said["verdict"]) == (0, "helping")
    assert said["window"]["requests"] == 40 * (Server.hits - 1)
    assert said["window"]["seconds"] == pytest.approx(2, abs=0.5)


def test_snapshots_make_a_window(warmset: Callable[..., Any], url: str, tmp_path: Path) -> None:
    files = []
    for name in ("before", "after"):
        files.append(tmp_path / f"{name}.prom")
        ran = warmset("snapshot", f"{url}/grow")
        assert ran.code == 0
        files[-1].write_text(ran.out)
        time.sleep(0.05)
    said = warmset("measure", *files, "-o", "json").json()
    assert said["window"]["requests"] == 40
    assert 0 < said["window"]["seconds"] < 5


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/loop", "redirects in a loop"),
        ("/html", "HTML or XML page titled `Grafana`"),
        ("/missing/metrics", "HTTP 404"),
        ("/secret", "HTTP 401"),
        ("/slow", "did not answer completely"),
        ("/huge", "more than 64 MiB"),
        ("/bomb", "more than 64 MiB"),
    ],
)
def test_hostile_servers(warmset: Callable[..., Any], url: str, path: str, said: str) -> None:
    began = time.monotonic()
    ran = warmset("measure", url + path, "--timeout", "0.7s" if path == "/slow" else "8s")
    assert ran.code == 2
    assert said in ran.err
    assert time.monotonic() - began < 9


def test_token(
    warmset: Callable[..., Any], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("hush\n")
    assert warmset("measure", f"{url}/secret", "--token-file", file).code == 0
    monkeypatch.setenv("WARMSET_TOKEN", "hush")
    assert warmset("measure", f"{url}/secret").code == 0
    monkeypatch.setenv("WARMSET_TOKEN", "wrong-token")
    ran = warmset("measure", f"{url}/secret")
    assert ran.code == 2
    assert "wrong-token" not in ran.out + ran.err


def test_wrong_port_speaks_no_http(warmset: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            peer.recv(100)
            peer.sendall(b"SSH-2.0-OpenSSH_9\r\n")
            peer.close()

        threading.Thread(target=answer, daemon=True).start()
        ran = warmset("measure", f"127.0.0.1:{server.getsockname()[1]}", "--timeout", "3s")
    assert ran.code == 2
    assert "no usable answer" in ran.err


def test_fleet_with_failures(warmset: Callable[..., Any], url: str, tmp_path: Path) -> None:
    targets = tmp_path / "fleet.txt"
    lines = [f"{url}/metrics?n={n}" for n in range(3)] + ["# down", "127.0.0.1:1", f"{url}/html"]
    targets.write_text("\n".join(lines))
    ran = warmset("measure", "--targets", targets, "-o", "json")
    said = ran.json()
    assert ran.code == 0
    assert len(said["window"]["failures"]) == 2
    assert warmset("snapshot", "--targets", targets).code == 0


def test_large_page(warmset: Callable[..., Any], tmp_path: Path, shared: Path) -> None:
    page = (shared / "metrics" / "chat_on.end.prom").read_text()
    lines = [line for line in page.split("\n") if line.startswith("vllm:")]
    big = tmp_path / "big.prom"
    with big.open("w") as out:
        for engine in range(400):
            out.write("\n".join(line.replace('engine="0"', f'engine="{engine}"') for line in lines) + "\n")
    assert big.stat().st_size > 15e6
    began = time.process_time()
    assert warmset("measure", big, "-o", "json").code in (0, 2)
    assert time.process_time() - began < 20


def test_watch_once(warmset: Callable[..., Any], url: str) -> None:
    ran = warmset("watch", f"{url}/grow", "--once", "--every", "0.5s", "-o", "json")
    said = ran.valid("watch")
    assert (ran.code, said["verdict"], len(said["endpoints"])) == (0, "helping", 1)
    assert "server" in warmset("watch", f"{url}/grow", "--once", "--every", "0.5s").out.lower()


@pytest.mark.parametrize("color", ["always", "never"])
def test_watch_in_a_terminal(url: str, color: str) -> None:
    """Sentences wrap, tables are cut at the width, and only the colour of the verdict may be left out."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 70, 0, 0))
    words = [sys.executable, "-m", "warmset", "watch", f"{url}/grow", "--every", "0.5s", "--color", color]
    # Neither the size of another terminal nor an ignored Ctrl-C may be inherited.
    unwanted = ("NO_COLOR", "COLUMNS", "LINES")
    environment = {k: v for k, v in os.environ.items() if k not in unwanted} | {"TERM": "xterm-256color"}
    process = subprocess.Popen(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(theirs)
    screen, deadline = "", time.monotonic() + 20
    while time.monotonic() < deadline and "TTFT P99" not in screen:
        screen += os.read(ours, 65536).decode(errors="replace")
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):
        while os.read(ours, 65536):
            pass
    assert process.wait(10) == 130
    assert "█" in screen
    assert ("\x1b[1;32mhelping" in screen) == (color == "always")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).splitlines()
    assert max(map(len, lines)) <= 70


@pytest.mark.parametrize("engine", ["vllm@0.32", "vllm@0.13", "vllm@0.8.5", "sglang@0.5.23", "lmcache@0.5.6"])
def test_export(warmset: Callable[..., Any], engine: str) -> None:
    board = warmset("export", "grafana", "--engine", engine).json()
    assert board["schemaVersion"] >= 39
    assert len({p["id"] for p in board["panels"]}) == len(board["panels"])
    for kind in ("rules", "alerts"):
        groups = yaml.safe_load(warmset("export", kind, "--engine", engine).out)["groups"]
        assert groups[0]["rules"]
    assert warmset("export", "alerts", "--engine", "vllm@0.1").code == 2


def test_expired_certificate(warmset: Callable[..., Any]) -> None:
    file = Path(__file__).parent / "data" / "expired.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ran = warmset("measure", f"https://127.0.0.1:{server.server_port}", "--ca-file", file, "--timeout", "5s")
    server.shutdown()
    server.server_close()
    assert ran.code == 2
    assert "the certificate has expired" in ran.err


@pytest.mark.parametrize("value", ["NaN", "1e999", "-5", '"x"', "9" * 400])
def test_a_baseline_of_impossible_numbers(
    warmset: Callable[..., Any], shared: Path, tmp_path: Path, value: str
) -> None:
    saved = tmp_path / "b.json"
    warmset("measure", *_pair(shared, "chat_off"), "--save", saved)
    text = re.sub(r'("prompt_tokens": )\d+', lambda found: found[1] + value, saved.read_text())
    saved.write_text(text)
    ran = warmset("measure", *_pair(shared, "chat_on"), "--baseline", saved, "-o", "json")
    assert (ran.code, ran.out) == (2, "")
    assert "baseline" in ran.err


def test_an_endless_baseline(warmset: Callable[..., Any], shared: Path) -> None:
    ran = warmset("measure", *_pair(shared, "chat_on"), "--baseline", "/dev/zero")
    assert ran.code == 2
    assert "too large" in ran.err


@pytest.mark.parametrize("name", ["chat_off", "chat_on"])
def test_pages_in_the_wrong_order(warmset: Callable[..., Any], shared: Path, name: str) -> None:
    """Counters of one process that only fall are no reset."""
    ran = warmset("measure", *reversed(_pair(shared, name)))
    assert ran.code == 2
    assert "the earlier one" in ran.err


@pytest.mark.parametrize("option", [("--tier", "0"), ("--bytes-per-token", "nan"), ("--chunk-tokens", "inf")])
def test_sizes_that_are_none(warmset: Callable[..., Any], shared: Path, option: tuple[str, str]) -> None:
    ran = warmset("measure", *_pair(shared, "chat_on"), *option)
    assert ran.code == 2
    assert f"`{option[0]} {option[1]}`" in ran.err
