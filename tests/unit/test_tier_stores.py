"""Every backend and every wrapper passes the same conformance suite."""

import contextlib
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from warmset.tiers.breaker import CircuitBreaker
from warmset.tiers.compress import CompressingStore
from warmset.tiers.conformance import StoreConformance
from warmset.tiers.deadline import DeadlineStore
from warmset.tiers.disk import DiskStore
from warmset.tiers.encrypt import EncryptingStore
from warmset.tiers.limit import LimitedStore
from warmset.tiers.memory import MemoryStore
from warmset.tiers.meter import MeteredStore
from warmset.tiers.retry import RetryingStore
from warmset.tiers.store import Store
from warmset.tiers.verify import VerifyingStore


class TestMemory(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestDisk(StoreConformance):
    @pytest.fixture(params=[True, False], ids=["direct", "buffered"])
    def store(self, request: pytest.FixtureRequest, tmp_path: Path) -> Store:
        return DiskStore(tmp_path / "kv", direct=request.param)


class TestDurableDisk(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return DiskStore(tmp_path / "kv", fsync=True)


class TestVerifyingDisk(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return VerifyingStore(DiskStore(tmp_path / "kv"), fingerprint="f")


class TestCompressing(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return CompressingStore(MemoryStore())


class TestEncrypting(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return EncryptingStore(MemoryStore(), master_key=bytes(range(32)))


class TestStack(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        disk = DeadlineStore(DiskStore(tmp_path / "kv"), seconds=30)
        guarded = LimitedStore(CircuitBreaker(RetryingStore(MeteredStore(disk))), calls=4)
        return CompressingStore(EncryptingStore(VerifyingStore(guarded), master_key=bytes(32)))


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


class TestObjects(StoreConformance):
    @pytest.fixture
    def store(self, s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        from warmset.tiers.objects import ObjectStore

        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        bucket = f"b{time.time_ns()}"
        urllib.request.urlopen(urllib.request.Request(f"{s3_endpoint}/{bucket}", method="PUT"), timeout=10)
        # moto answers 500 when two writers race: what a client of a real store retries too.
        store = RetryingStore(ObjectStore(f"s3://{bucket}/kv/p", endpoint=s3_endpoint, region="us-east-1"))
        yield store
        store.close()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    pytest.importorskip("redis")
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL,
    )
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.1):
            break
        time.sleep(0.05)
    yield f"redis://127.0.0.1:{port}/0"
    server.terminate()
    server.wait(10)


class TestRedis(StoreConformance):
    @pytest.fixture
    def store(self, redis_url: str) -> Iterator[Store]:
        from warmset.tiers.redis import RedisStore

        store = RedisStore(redis_url)
        store._client.flushdb()
        yield store
        store.close()
