"""Addresses: which can be one, and that none is shown with a secret."""

import pytest

from warmset.addresses import bare, check_endpoint, is_http, without_credentials
from warmset.errors import InputError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://h:8000/metrics", "http://h:8000/metrics"),
        ("http://h/metrics?a=b@c", "http://h/metrics?a=b@c"),
        ("http://[::1]:8000/x", "http://[::1]:8000/x"),
        ("h:8000", "h:8000"),
        ("dir/file", "dir/file"),
        ("http://u:secret@h:1", "http://h:1"),
        ("u:secret@h:1", "h:1"),
        ("http://u:sec/ret@h", "http://h"),
        ("http://u:secret?x@h:8000", "http://h:8000"),
        ("http://u:x/y?secret@h:8000", "http://h:8000"),
        ("http://u:secret#x@h:8000", "http://h:8000"),
        ("http://secret@h", "http://h"),
        ("http://u:p@secret@h", "http://h"),
    ],
)
def test_no_secret_is_shown(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


def test_options_of_a_store_are_not_shown() -> None:
    assert bare("redis://h:6379/0?password=secret") == "redis://h:6379/0"
    assert bare("s3://b/p#secret") == "s3://b/p"


@pytest.mark.parametrize(
    "url",
    [
        *("", "h:9", "ftp://h", "http://", "http://h:0", "http://h:99999", "http://[::1", "http://a b"),
        *(
            "http://u:secret@h",
            "http://h?x=secret",
            "http://h#secret",
            "http://h/`secret`",
            "http://h/$(secret)",
        ),
    ],
)
def test_what_is_no_endpoint(url: str) -> None:
    with pytest.raises(InputError) as caught:
        check_endpoint(url)
    assert "u:secret" not in caught.value.message
    assert "=secret" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["http://h", "https://h:9000", "http://[::1]:9000/x", "https://minio.example/a/b"]
)
def test_endpoints(url: str) -> None:
    check_endpoint(url)
    assert is_http(url)
