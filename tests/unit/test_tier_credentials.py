"""Who the store thinks we are, and whom we believe it to be: credentials of files, certificate authorities."""

import datetime as dt
import ipaddress
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from warmset.errors import InputError
from warmset.tiers.aws import aws_profile
from warmset.tiers.errors import Denied, Unavailable
from warmset.tiers.url import StoreOptions, open_store

pytest.importorskip("obstore")


class Seen(HTTPServer):
    """Answers 404 to everything and keeps the headers."""

    def __init__(self) -> None:
        self.headers: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        server: Any = self.server
        server.headers.append({k.lower(): v for k, v in self.headers.items()})
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD = _answer  # noqa: N815

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Seen]:
    server = Seen()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    def write(name: str, text: str) -> None:
        (tmp_path / ".aws").mkdir(exist_ok=True)
        (tmp_path / ".aws" / name).write_text(text)

    return write


def _asked_by(server: Seen, **options: Any) -> tuple[str, str]:
    """The key id and region that one question was signed with."""
    store = open_store(
        "s3://bucket/kv", StoreOptions(endpoint=f"http://127.0.0.1:{server.server_port}", **options)
    )
    assert store.exists(["k"]) == [False]
    store.close()
    credential = server.headers[-1]["authorization"].split("Credential=")[1].split(",")[0].split("/")
    return credential[0], credential[2]


def test_keys_of_the_default_profile(server: Seen, write: Callable[..., None]) -> None:
    write(
        "credentials",
        "[default]\naws_access_key_id = FILEKEY\naws_secret_access_key = s%e\naws_session_token = TOKEN\n",
    )
    write("config", "[default]\nregion = eu-central-1\n")
    assert _asked_by(server) == ("FILEKEY", "eu-central-1")
    assert server.headers[-1]["x-amz-security-token"] == "TOKEN"
    assert _asked_by(server, region="us-west-2") == ("FILEKEY", "us-west-2")


def test_another_profile_and_other_places(
    server: Seen, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("config", "[profile kv]\naws_access_key_id = CONFIGKEY\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_PROFILE", "kv")
    assert _asked_by(server)[0] == "CONFIGKEY"
    (tmp_path / "elsewhere").write_text("[kv]\naws_access_key_id = ELSEWHERE\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "elsewhere"))
    assert _asked_by(server)[0] == "ELSEWHERE"


def test_the_environment_comes_before_files(
    server: Seen, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("credentials", "[default]\naws_access_key_id = FILEKEY\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    assert _asked_by(server)[0] == "ENVKEY"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/token")
    assert aws_profile() is None


def test_renewed_keys_are_read_again_and_lost_ones_are_denied(write: Callable[..., None]) -> None:
    write("credentials", "[default]\naws_access_key_id = A\naws_secret_access_key = s\n")
    profile = aws_profile()
    assert profile is not None
    first = profile.credentials()
    assert first["access_key_id"] == "A"
    assert first["expires_at"] > dt.datetime.now(dt.UTC)
    write("credentials", "[default]\naws_access_key_id = B\naws_secret_access_key = s\n")
    assert profile.credentials()["access_key_id"] == "B"
    write("credentials", "")
    with pytest.raises(Denied):
        profile.credentials()


@pytest.mark.parametrize("text", ["", "nonsense", "[default]\nregion = x\n", "\0\0", "[default\n"])
def test_files_without_keys_leave_the_rest_of_the_chain(write: Callable[..., None], text: str) -> None:
    write("credentials", text)
    assert aws_profile() is None


def test_a_profile_that_was_named_and_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "gone")
    with pytest.raises(InputError, match="`gone`") as caught:
        open_store("s3://bucket/kv")
    assert caught.value.hint


def _certificates(folder: Path) -> tuple[Path, Path]:
    """An authority of our own, and a key with a certificate for 127.0.0.1 that it signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "server")}
    names = {name: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in keys}
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = {}
    for serial, name in enumerate(keys, 1):
        is_authority = name == "authority"
        made[name] = (
            x509.CertificateBuilder()
            .subject_name(names[name])
            .issuer_name(names["authority"])
            .public_key(keys[name].public_key())
            .serial_number(serial)
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(address, critical=False)
            .sign(keys["authority"], hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )
    secret = keys["server"].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "ca.pem").write_bytes(made["authority"])
    (folder / "server.pem").write_bytes(secret + made["server"])
    return folder / "ca.pem", folder / "server.pem"


def test_a_store_with_a_certificate_of_its_own(
    server: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    authority, certificate = _certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    endpoint = f"https://127.0.0.1:{server.server_port}"
    trusting = open_store("s3://b/kv", StoreOptions(endpoint=endpoint, region="x", ca_file=authority))
    assert trusting.exists(["k"]) == [False]
    wary = open_store("s3://b/kv", StoreOptions(endpoint=endpoint, region="x", timeout_seconds=2))
    with pytest.raises(Unavailable):
        wary.exists(["k"])
    with pytest.raises(InputError, match="CA file"):
        open_store("s3://b/kv", StoreOptions(endpoint=endpoint, ca_file=tmp_path / "none.pem"))
    for store in (trusting, wary):
        store.close()
