"""Sizes in the wrong unit."""

import math
import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Rule
from warmset.checks.text import Spot
from warmset.units import GIB, format_bytes

_WITH_UNIT = re.compile(r"\s*[0-9][0-9_.]*\s*([KMGTkmgt]i?[Bb]?)\s*")
# Plainly meant as a value, not a placeholder such as `{{ .Values.size }}` or `<SIZE>`.
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")
# Above this a figure in GiB, and below this a figure in bytes, is in another unit.
_TOO_MANY_GIB = 65_536
_TOO_FEW_BYTES = 2**20
_LARGEST_PER_RANK_GIB = 4_096
_BYTE_KEYS = ("cpu_bytes_to_use", "cpu_bytes_to_use_per_rank", "disk_capacity_bytes")
_GIB_SETTINGS = ("max_local_cpu_size", "max_local_disk_size", "reserve_local_cpu_size")


def check(case: Case) -> Iterator[Answer]:
    """Flags in GiB or GB, keys in bytes, LMCache's settings."""
    for name, unit in (
        ("--kv-offloading-size", "GiB"),
        ("--hicache-size", "GB"),
        ("--l1-size-gb", "GiB"),
        ("--cpu-offload-gb", "GiB"),
    ):
        flag = case.launch.flag(name)
        if flag is not None and flag.value is None and case.launch.complete:
            yield Hit(
                f"`{name}` has no value: the server stops at its start", flag.word, fix=f"{name} {unit}"
            )
        if flag is not None and flag.value is not None and flag.value.known:
            text = flag.value.value
            if name == "--hicache-size" and re.fullmatch(r"\d+\.\d+", text):
                yield Hit(
                    "`--hicache-size` takes a whole number of GB",
                    flag.value,
                    fix=f"{name} {round(float(text)) or 1}",
                )
            yield from _gib(text, flag.value, name, unit, _TOO_MANY_GIB)
    for connector in case.kv.connectors if not case.kv.by_flag else ():
        for key in _BYTE_KEYS if not connector.name.startswith("LMCache") else ():
            value = connector.extra.get(key)
            if isinstance(value, str):
                bytes_ = _in_bytes(value)
                fix = f'"{key}": {bytes_}' if bytes_ else f'"{key}": BYTES, a plain number'
                yield Hit(
                    f"`{key}` wants bytes as a number, not the text `{value[:40]}`",
                    connector.key(key),
                    fix=fix,
                )
            elif (
                isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _TOO_FEW_BYTES
            ):
                yield Hit(
                    f"`{key}` is in bytes: {value:g} bytes hold nothing; {value:g} GiB are {int(value * GIB)}",
                    connector.key(key),
                    fix=f'"{key}": {int(value * GIB)}',
                )
            elif isinstance(value, (int, float)) and not isinstance(value, bool) and value <= 0:
                yield Hit(f"`{key}` must be positive", connector.key(key), fix=f'"{key}": {64 * GIB}')
    for key in _GIB_SETTINGS:
        setting = case.lmcache.get(key)
        if setting is None or setting.value == "":
            continue
        yield from _gib(
            setting.value, setting.at, key, "GiB", _LARGEST_PER_RANK_GIB if "cpu" in key else _TOO_MANY_GIB
        )
    size = case.launch.settings.get("lmCacheConfig.cpuOffloadingBufferSize")
    if size is not None:
        yield from _gib(size.value, size, "cpuOffloadingBufferSize", "GiB", _LARGEST_PER_RANK_GIB)
    size = case.launch.settings.get("lmcacheConfig.cpuOffloadingBufferSize")
    if size is not None and _WITH_UNIT.fullmatch(size.value):
        yield from _gib(size.value, size, "cpuOffloadingBufferSize", "GiB", _LARGEST_PER_RANK_GIB)


def _gib(text: str, at: Spot, name: str, unit: str, most: int) -> Iterator[Answer]:
    if (match := _WITH_UNIT.fullmatch(text)) is not None:
        number = re.sub(r"[^0-9.]", "", text) or "0"
        factor = {"k": 2**-20, "m": 2**-10, "g": 1, "t": 2**10}[match[1][0].lower()]
        value = float(number) * factor if number.count(".") <= 1 else 0
        yield Hit(
            f"`{name}` wants a plain number of {unit}; `{text[:40]}` with its unit does not parse",
            at,
            fix=f"{name} {value:g}" if name.startswith("--") else f"{name}: {value:g}",
        )
        return
    try:
        number_ = float(text)
    except ValueError:
        if _WORD.fullmatch(text):
            yield Hit(f"`{name}` wants a plain number of {unit}, and `{text[:40]}` is none", at)
        return
    if not math.isfinite(number_):
        yield Hit(f"`{name}` wants a plain number of {unit}, and `{text[:40]}` is none", at)
    elif number_ > most:
        guess = format_bytes(number_) if number_ > 2**24 else f"{number_ / 1024:g} GiB if it was meant in MiB"
        in_gib = number_ / GIB if number_ > 2**24 else number_ / 1024
        yield Hit(
            f"`{name}` is in {unit}: {number_:,.0f} is no size of a host; it looks like bytes or MiB ({guess})",
            at,
            fix=f"{name} {in_gib:g}" if name.startswith("--") else f"{name}: {in_gib:g}",
        )
    elif number_ < 0:
        yield Hit(f"`{name}` must not be negative", at)


def _in_bytes(text: str) -> int | None:
    from warmset.checks.record import quantity

    return quantity(text)


RULE = Rule(
    "size-unit",
    "error",
    "A size in the wrong unit.",
    "`--kv-offloading-size` counts GiB for the engine, `cpu_bytes_to_use` bytes, LMCache's sizes GiB per rank "
    "without a "
    "unit, `--hicache-size` whole 10^9 bytes per rank. A value in another unit is refused late, or holds nothing.",
    '{"kv_connector":"OffloadingConnector", … {"cpu_bytes_to_use": 64}}',
    '{"kv_connector":"OffloadingConnector", … {"cpu_bytes_to_use": 68719476736}}',
    "all versions",
    "vLLM config/cache.py; LMCache v1/config.py; production-stack PR 511",
    check,
)
