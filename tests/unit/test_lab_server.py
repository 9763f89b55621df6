"""The lab's own server, and no other, is what is measured."""

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from warmset.errors import InputError
from warmset.lab import server as module
from warmset.lab.server import VllmServer, free_port, running


@contextmanager
def _answering(models: str, status: int = 200) -> Iterator[int]:
    """A server that says yes to everything, and `models` of its models."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/v1/models" else 200)
            self.end_headers()
            self.wfile.write(models.encode() if self.path == "/v1/models" else b"ok")

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def _server(tmp_path: Path) -> VllmServer:
    """One that starts and never binds its port."""
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    python.chmod(0o700)
    return VllmServer(str(python), tmp_path / "model", 8, 16, 1 << 20, 256, 1)


@pytest.mark.parametrize(
    "models", ["ok", "", "[]", '{"data": []}', json.dumps({"data": [{"id": "lab", "root": "/other"}]})]
)
def test_a_stranger_on_the_port_is_not_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: str
) -> None:
    with _answering(models) as port:
        monkeypatch.setattr(module, "free_port", lambda: port)
        with (
            pytest.raises(InputError, match=f"another program answers at `http://127.0.0.1:{port}`"),
            running(_server(tmp_path), tmp_path / "log"),
        ):
            pass


def test_the_servers_own_model_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"data": [{"id": "lab", "root": str(tmp_path / "model")}]}
    with _answering(json.dumps(answer)) as port:
        monkeypatch.setattr(module, "free_port", lambda: port)
        with running(_server(tmp_path), tmp_path / "log") as up:
            assert up.url == f"http://127.0.0.1:{port}"


def test_a_server_that_wants_a_key_is_not_called_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _answering("", status=401) as port:
        monkeypatch.setattr(module, "free_port", lambda: port)
        with running(_server(tmp_path), tmp_path / "log") as up:
            assert up.alive()


def test_ports_are_none_that_a_program_is_given_by_chance() -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = {free_port() for _ in range(20)}
    assert len(ports) > 1
    if low > 11_000:
        assert not any(low <= port <= high for port in ports)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass
