"""HiCache host pools that are not larger than the device pool."""

import re
from collections.abc import Iterator

from warmset.checks.case import Case
from warmset.checks.findings import Answer, Hit, Missing, Rule
from warmset.units import GB, format_bytes

_DEVICE = re.compile(r"(?:max_total_num_tokens|max_total_tokens|#?tokens?)[=: ]+(?P<tokens>[\d,]{3,12})")
_DEVICE_POOL = re.compile(
    r"(?:KV Cache is allocated|KV pool|device pool)[^\n]{0,80}?(?P<size>\d+(?:\.\d+)?) ?GB", re.IGNORECASE
)
_KV_PARTS = re.compile(
    r"KV Cache is allocated[^\n]*?K size: (?P<k>\d+(?:\.\d+)?) ?GB[^\n]*?V size: (?P<v>\d+(?:\.\d+)?) ?GB"
)
_HOST = re.compile(r"(?:host|L2)[^\n]{0,60}?(?P<tokens>[\d,]{3,12}) tokens", re.IGNORECASE)


def check(case: Case) -> Iterator[Answer]:
    """The ratio, the size that overrides it, and the device pool where a log states it."""
    if not case.sglang:
        return
    ratio, size = case.launch.flag("--hicache-ratio"), case.launch.flag("--hicache-size")
    storage = case.launch.flag("--hicache-storage-backend")
    sized = size is not None and (size.number or 0) > 0
    if ratio is not None and sized and size is not None:
        yield Hit("`--hicache-size` overrides `--hicache-ratio`", ratio.word, "note", "keep one of the two")
    if ratio is not None and not sized and ratio.number is not None and ratio.number <= 1:
        below = (
            "; reads from the storage backend are off (their capacity is 0.8 × (host − device) = 0)"
            if storage is not None
            else ""
        )
        yield Hit(
            f"a host pool of {ratio.number:g} × the device pool is not larger than it and only mirrors it{below}",
            ratio.value or ratio.word,
            "error",
            "--hicache-ratio 2",
        )
    if not sized or size is None or not case.offloads:
        return
    device = _device_bytes(case)
    tokens_device, tokens_host = pools_in_tokens(case)
    if device is None and not (tokens_device and tokens_host):
        yield Missing(
            "device pool", "whether the host pool is larger than the device pool: give the start-up log too"
        )
        return
    host = int((size.number or 0) * GB)
    if device is not None and host <= device:
        below = (
            ": the prefetch capacity for the storage backend is 0, and it is never read"
            if storage is not None
            else ""
        )
        yield Hit(
            (
                f"the host pool ({format_bytes(host)} per rank) is not larger than the device pool "
                f"({format_bytes(device)} per rank){below}"
            ),
            size.value or size.word,
            "error" if storage is not None else "warning",
            f"--hicache-size above {-(-device // GB)}",
        )


def _device_bytes(case: Case) -> int | None:
    """The device pool of one rank, from the log."""
    log = case.log
    if log is None:
        return None
    if (parts := log.search(_KV_PARTS)) is not None:
        return int((float(parts[0]["k"]) + float(parts[0]["v"])) * GB)
    found = log.search(_DEVICE_POOL)
    return int(float(found[0]["size"]) * GB) if found is not None else None


def pools_in_tokens(case: Case) -> tuple[int | None, int | None]:
    """Device and host pool in tokens, as the log states them."""
    log = case.log
    if log is None:
        return None, None
    device, host = log.search(_DEVICE), log.search(_HOST)
    return tuple(int(m[0]["tokens"].replace(",", "")) if m else None for m in (device, host))  # type: ignore[return-value]


RULE = Rule(
    "hicache-ratio",
    "error",
    "HiCache's host pool must be larger than the device pool.",
    "HiCache writes through: the host pool also holds what the device holds. A ratio of 1, or a `--hicache-size` "
    "(10^9 bytes "
    "per rank, it overrides the ratio) at or below the device pool, adds nothing, and the prefetch capacity from "
    "a storage "
    "backend is 0.8 × (host − device): nothing is ever read back.",
    "--enable-hierarchical-cache --hicache-ratio 1.0 --hicache-storage-backend mooncake",
    "--enable-hierarchical-cache --hicache-ratio 2 --hicache-storage-backend mooncake",
    "all versions of SGLang",
    "SGLang PRs 26449, 27010, issue 39444",
    check,
)
