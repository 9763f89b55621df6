"""LMCache remote stores that cannot work as written."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.text import Spot

_SCHEMES = frozenset(
    [
        "redis",
        "rediss",
        "redis-sentinel",
        "valkey",
        "s3",
        "mooncakestore",
        "lm",
        "fs",
        "hf3fs",
        "infinistore",
        "sagemaker-hyperpod",
        "blackhole",
        "external",
        "audit",
        "mock",
        "eic",
        "plugin",
        "bigtable",
    ]
)
_LOG_URL = re.compile(r"remote_url['\"]?[ :=]+['\"]?(?P<url>[a-z0-9+\-]+:/{2,3}[^\s'\",}]+)")


def check(case: Case) -> Iterator[Answer]:
    """The URL in force, or the one that a log prints."""
    remote = case.lmcache.get("remote_url")
    if remote is not None and remote.value not in ("", "null", "None"):
        yield from _judge(case, remote.value, remote.at)
    elif case.log is not None and (found := case.log.search(_LOG_URL)) is not None:
        yield from _judge(case, found[0]["url"], found[1])


def _judge(case: Case, url: str, at: Spot) -> Iterator[Answer]:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        yield Hit(f"`{url[:80]}` is no URL", at, "error")
        return
    scheme = parts.scheme.lower()
    if scheme == "unix" or url.startswith("/"):
        yield Hit(
            f"`{url[:80]}`: a unix socket is no documented scheme of LMCache",
            at,
            "note",
            "redis://HOST:6379",
            "medium",
        )
    elif scheme == "s3":
        # The in-process connector always speaks to BUCKET.HOST: a name without dots cannot be that.
        if host is None or "." not in host or parts.path.strip("/"):
            yield Hit(
                f"`{url[:80]}`: LMCache inside the engine addresses S3 as `BUCKET.ENDPOINT` only; an endpoint "
                f"that wants the "
                "bucket in the path answers with 400",
                at,
                "error",
                f"s3://{host or 'BUCKET'}.ENDPOINT, or the s3 adapter of `lmcache server`",
            )
    elif scheme not in _SCHEMES and "://" in url:
        yield Hit(
            f"`{scheme[:20]}://` is no remote store of LMCache",
            at,
            "warning",
            "redis://, valkey://, s3://, lm://, fs://, mooncakestore://",
            "medium",
        )


RULE = Rule(
    "remote-url",
    "error",
    "A remote store that LMCache cannot reach as written.",
    "The in-process S3 connector uses virtual-hosted addresses (`s3://bucket.endpoint`); endpoints that want the "
    "bucket in "
    "the path fail with 400. Unix sockets are not a documented scheme.",
    "remote_url: s3://my-bucket/sub",
    "remote_url: s3://my-bucket.s3.eu-central-1.amazonaws.com",
    "LMCache in-process",
    "LMCache issues 2621, 2581",
    check,
)
