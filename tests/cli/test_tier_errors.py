"""Whatever a store answers, the command says what to do about it."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from warmset.cli import tier, tier_bench
from warmset.tiers import errors
from warmset.tiers.disk import DiskStore
from warmset.tiers.errors import Denied, StoreError, Unavailable
from warmset.tiers.memory import MemoryStore
from warmset.tiers.objects import ObjectStore
from warmset.tiers.store import Entry


def _kinds(of: type[StoreError]) -> Iterator[type[StoreError]]:
    for kind in of.__subclasses__():
        yield kind
        yield from _kinds(kind)


KINDS = tuple(_kinds(StoreError))
# What is asked of a store that does not answer is answered by its doctor.
DOCTOR = {errors.Denied, errors.Transient, errors.Throttled, errors.Unavailable, errors.Deadline}
COMMANDS = (
    ("ls",),
    ("stats",),
    ("gc", "--capacity", "1GiB"),
    ("verify",),
    ("bench", "--block", "4096B", "--objects", "2"),
)


class Refusing(MemoryStore):
    """Answers every question with the same error."""

    def __init__(self, error: StoreError) -> None:
        super().__init__()
        self._error = error

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        raise self._error

    def put(self, key: str, *parts: Any) -> None:
        raise self._error


def test_every_kind_has_a_fix_of_its_own() -> None:
    assert len(KINDS) >= 10
    said = [kind("what happened").hint for kind in KINDS]
    assert all(said)
    assert len(set(said)) == len(said)
    assert errors.Denied("x", hint="a better one").hint == "a better one"


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_command_passes_it_on(
    warmset: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    kind: type[StoreError],
    words: tuple[str, ...],
) -> None:
    for module in (tier, tier_bench):
        monkeypatch.setattr(module, "open_url", lambda **_: Refusing(kind("it did not work")))
    ran = warmset("tier", words[0], "file:///kv", *words[1:])
    assert (ran.code, ran.out) == (3, "")
    error = ran.err[ran.err.index("error: ") :]
    assert error.startswith(f"error: it did not work\n\nhint: {kind.fix}")
    assert ("`warmset tier doctor STORE`" in error) == (kind in DOCTOR)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_doctor_gives_the_same_advice(
    warmset: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: type[StoreError]
) -> None:
    monkeypatch.setattr(tier, "open_url", lambda **_: Refusing(kind("it did not work")))
    ran = warmset("tier", "doctor", "file:///kv", "-o", "json")
    assert ran.code == 1
    first = ran.json()["examinations"][0]
    assert (first["status"], first["detail"], first["advice"]) == ("failed", "it did not work", kind.fix)


class Nowhere(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_bucket_that_is_not_there(warmset: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    server = HTTPServer(("127.0.0.1", 0), Nowhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        ran = warmset(
            *("tier", "ls", "s3://no-such/kv", "--endpoint", f"http://127.0.0.1:{server.server_port}"),
            *("--region", "x", "--timeout", "2s"),
        )
    finally:
        server.shutdown()
        server.server_close()
    assert (ran.code, ran.out) == (3, "")
    assert "error: `s3://no-such/kv" in ran.err
    assert "hint: check that the bucket exists" in ran.err


@pytest.mark.parametrize(
    ("url", "variable"), [("s3://b", "AWS_ACCESS_KEY_ID"), ("gs://b", "GOOGLE_APPLICATION")]
)
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("status code: 403 Forbidden", Denied),
        ("status code: 404 Not Found", Denied),
        ("error sending request", Unavailable),
    ],
)
def test_a_store_without_credentials_says_where_they_come_from(
    url: str, variable: str, answer: str, kind: type[StoreError]
) -> None:
    pytest.importorskip("obstore")
    store = ObjectStore(url)
    error = OSError(f"Generic error: Error performing PUT http://169.254.169.254/token in 1.2ms - {answer}")
    translated = store._translated(error, "k")
    assert type(translated) is kind
    assert translated.message.startswith(f"`{url}/k`: ")
    assert variable in str(translated.hint)


def test_a_store_that_may_only_be_read_is_looked_into(
    warmset: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kv").mkdir()
    (tmp_path / "kv" / "k").write_bytes(b"data")
    made = Path.mkdir

    def read_only(self: Path, *more: object, **options: object) -> None:
        if tmp_path in self.parents:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        made(self, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", read_only)
    for command in ("ls", "stats"):
        ran = warmset("tier", command, f"file://{tmp_path}", "-o", "json")
        assert (ran.code, ran.err) == (0, "")
    ran = warmset("tier", "doctor", f"file://{tmp_path}")
    assert ran.code == 1
    assert "Read-only file system" in ran.out
    with pytest.raises(Denied, match="Read-only"):
        DiskStore(tmp_path)


def test_what_root_makes_by_looking_belongs_to_whom_the_store_belongs(
    warmset: Callable[..., Any], tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(tmp_path, 65534, 65534)
    assert warmset("tier", "ls", f"file://{tmp_path}").code == 0
    assert {(p.stat().st_uid, p.stat().st_gid) for p in tmp_path.iterdir()} == {(65534, 65534)}


@pytest.mark.parametrize(
    "endpoint", ["127.0.0.1:9", "", "http://a b", "http://[::1", "http://me:hunter2@127.0.0.1:9"]
)
def test_an_endpoint_that_is_no_address_is_refused(
    warmset: Callable[..., Any], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    ran = warmset("tier", "ls", "s3://bucket/kv", "--endpoint", endpoint)
    assert ran.code == 2
    assert "is not an address of an object store" in ran.err
    assert "hunter2" not in ran.err
