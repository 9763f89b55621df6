"""Sizes as the servers' own settings count them."""

from decimal import ROUND_DOWN, Decimal

from warmset.launch.parts import Conversion
from warmset.launch.request import LaunchRequest
from warmset.units import GB, GIB, format_bytes, format_counted, format_size


def decimal_gib(size_bytes: int) -> str:
    """GiB as a plain decimal, rounded down to a millionth: `230`, `57.5`, never `2.3e2`."""
    value = (Decimal(size_bytes) / GIB).quantize(Decimal("0.000001"), rounding=ROUND_DOWN)
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".")


def ceil_gib(size_bytes: int) -> int:
    """Whole GiB, rounded up: for what a host must have."""
    return -(-size_bytes // GIB)


def in_bytes(setting: str, request: LaunchRequest) -> Conversion:
    """A setting in bytes over all ranks of one replica: no conversion but the unit."""
    return Conversion(
        setting,
        str(request.tier_bytes),
        "bytes total per replica",
        request.tier_bytes,
        f"{format_size(request.tier_bytes)} = {request.tier_bytes:,} bytes over all ranks of one replica",
    )


def in_gib(setting: str, size_bytes: int, unit: str, text: str) -> Conversion:
    """A setting in GiB."""
    value = decimal_gib(size_bytes)
    return Conversion(setting, value, unit, int(Decimal(value) * GIB), text)


def in_gib_per_rank(setting: str, size_bytes: int, request: LaunchRequest) -> Conversion:
    """A setting in GiB for each rank: the replica's size over TP × PP."""
    per_rank = size_bytes // request.ranks
    return in_gib(
        setting,
        per_rank,
        "GiB per rank",
        f"{format_size(size_bytes)} / {format_counted(request.ranks, 'rank')} (TP {request.tp} × PP {request.pp}) = "
        f"{decimal_gib(per_rank)} GiB per rank",
    )


def in_whole_gb_per_rank(setting: str, request: LaunchRequest) -> Conversion:
    """A setting in whole units of 10^9 bytes for each rank, rounded up."""
    value = -(-request.tier_bytes // (request.ranks * GB))
    return Conversion(
        setting,
        str(value),
        "GB (10^9 bytes) per rank",
        value * GB,
        f"{format_size(request.tier_bytes)} / {format_counted(request.ranks, 'rank')} (TP {request.tp} × PP "
        f"{request.pp}) = {value} × 10^9 bytes per rank, rounded up "
        f"({format_bytes(value * GB * request.ranks)} in all)",
    )
