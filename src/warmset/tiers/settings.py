"""What the user may set in a tier's table; the same for the engine that runs it and for who checks a launch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from warmset.errors import InputError
from warmset.tiers.compress import Zstd
from warmset.tiers.key import check_source

# Keys of the table that are the server's own business.
SERVER_KEYS = frozenset(("type", "module_path", "backpressure", "enable_kv_events", "locality"))
_COUNTS = ("load_threads", "store_threads")
_SECRET = ("encryption_key_file", "encryption_key_env")


@dataclass(frozen=True, slots=True)
class TierSettings:
    """One tier; bytes and seconds. `docs/reference/tier.md` says what each means."""

    store: str
    capacity_bytes: int | None = None
    max_age_seconds: float | None = None
    lookup_deadline_seconds: float = 1.0
    load_deadline_seconds: float = 5.0
    store_deadline_seconds: float = 30.0
    load_threads: int = 16
    store_threads: int = 32
    queued_store_bytes: int = 1 << 30
    tenant: str = ""
    model_path: str | None = None
    adapters_version: str | None = None
    endpoint: str | None = None
    region: str | None = None
    ca_file: str | None = None
    fsync: bool = False
    compress: str | None = None
    encryption_key_file: str | None = None
    encryption_key_env: str | None = None


KEYS = tuple(field.name for field in fields(TierSettings))
_DEFAULTS = {field.name: field.default for field in fields(TierSettings)}


def parse(table: Mapping[str, Any]) -> TierSettings:
    """The settings in `table`. Raises InputError that names the first key that is unknown, missing or wrong."""
    given = {key: value for key, value in table.items() if key not in SERVER_KEYS}
    for key, value in given.items():
        if key not in KEYS:
            near = get_close_matches(key, KEYS, n=1, cutoff=0.6)
            raise InputError(
                f"the warmset tier has no key `{key[:80]}`",
                hint=f"did you mean `{near[0]}`?" if near else f"known: {', '.join(KEYS)}",
            )
        if value is None and _DEFAULTS[key] is None:
            continue
        good, want = _is_good(key, value)
        if not good:
            # A key that was typed in the wrong place must not go on into a log.
            shown = "not a text" if key in _SECRET else f"`{str(value)[:80]}`"
            raise InputError(f"`{key}` of the warmset tier is {shown}", hint=f"it must be {want}")
    if "store" not in given:
        raise InputError(
            "the warmset tier lacks `store`",
            hint='write it like "store": "file:///kv" or "store": "s3://bucket/prefix"',
        )
    settings = TierSettings(**given)
    check_source(settings.encryption_key_file, settings.encryption_key_env)
    return settings


def _is_good(key: str, value: Any) -> tuple[bool, str]:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if key in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 256, "1 to 256"
    if key.endswith(("_bytes", "_seconds")):
        return number and 0 < value < float("inf"), "a number above 0"
    if key == "fsync":
        return isinstance(value, bool), "true or false"
    if key == "compress":
        return value == Zstd.name, f'"{Zstd.name}", or left out'
    return isinstance(value, str), "a text"
