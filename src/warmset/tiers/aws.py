"""Keys from the files of the AWS command line; obstore's own chain knows environment, web identity and metadata."""

import configparser
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from warmset.errors import InputError
from warmset.tiers.errors import Denied

# Where one of these is set, credentials come from there: the order of every AWS client.
_BEFORE_FILES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
# Temporary keys are written anew by whoever renews them.
_READ_AGAIN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class AwsProfile:
    """A profile with keys: what obstore calls for credentials, and the region if the files name one."""

    credentials: Callable[[], dict[str, Any]]
    region: str | None


def aws_profile() -> AwsProfile | None:
    """The profile of AWS_PROFILE (or `default`); None where keys come from elsewhere or there is no such file.

    Raises InputError for a profile that was asked for by name and has no keys.
    """
    if any(os.environ.get(name) for name in _BEFORE_FILES):
        return None
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE") or "default"
    config_sections = (f"profile {name}", name)
    region = _section(_path("AWS_CONFIG_FILE", "config"), config_sections).get("region")
    if not _keys(name):
        if name != "default":
            raise InputError(
                f"AWS profile `{name[:80]}` has no keys in its files",
                hint="log in with `aws configure`, or unset AWS_PROFILE; for roles, export their temporary keys",
            )
        return None

    def credentials() -> dict[str, Any]:
        keys = _keys(name)
        if not keys:
            raise Denied(f"AWS profile `{name}` has no keys any more")
        return {**keys, "expires_at": datetime.now(UTC) + _READ_AGAIN}

    return AwsProfile(credentials, region)


def _keys(name: str) -> dict[str, str | None]:
    for path, sections in (
        (_path("AWS_SHARED_CREDENTIALS_FILE", "credentials"), (name,)),
        (_path("AWS_CONFIG_FILE", "config"), (f"profile {name}", name)),
    ):
        found = _section(path, sections)
        if "aws_access_key_id" in found and "aws_secret_access_key" in found:
            return {
                "access_key_id": found["aws_access_key_id"],
                "secret_access_key": found["aws_secret_access_key"],
                "token": found.get("aws_session_token"),
            }
    return {}


def _path(variable: str, name: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / ".aws" / name)


def _section(path: Path, names: tuple[str, ...]) -> dict[str, str]:
    """The first of `names` in an INI file; empty if it is not there or cannot be read."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        # Other tools read this file too; what is wrong in it is theirs to say.
        return {}
    return next((dict(parser[name]) for name in names if parser.has_section(name)), {})
