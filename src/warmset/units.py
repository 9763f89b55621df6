"""The only parser and formatter of bytes, tokens, durations and ratios.

Sizes are IEC: GiB = 2**30 bytes. Decimal units (GB = 10**9 bytes) are read where a user writes them,
and printed only where a server's own flag means them.
"""

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from warmset.errors import InputError

KIB, MIB, GIB, TIB, PIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40, 1 << 50
GB = 10**9

# No memory or store of today comes near this; a larger figure is a typing error, not a plan.
MAX_BYTES = 1 << 60
MAX_TOKENS = 1 << 53
# A bare number counts GiB. One above the memory of any machine was meant as bytes or MiB.
MAX_BARE_BYTES = 10_000 * GIB

_SIZE_UNITS = {
    "b": 1,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": TIB,
    "pib": PIB,
    "ki": KIB,
    "mi": MIB,
    "gi": GIB,
    "ti": TIB,
    "pi": PIB,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "pb": 10**15,
}
_TOKEN_UNITS = {"": 1, "k": 1_000, "ki": 1_024, "m": 1_000_000, "mi": 1_048_576}
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER_UNIT = re.compile(
    r"([0-9][0-9_]*(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?|\.[0-9]+)\s*([a-z]*)", re.IGNORECASE
)


def _split(text: str, what: str, example: str) -> tuple[Decimal, str]:
    stripped = text.strip()
    match = _NUMBER_UNIT.fullmatch(stripped)
    if match is None:
        reason = "must not be negative" if stripped.startswith("-") else "is not a number with a unit"
        raise InputError(f"{what} `{text[:80]}` {reason}", hint=f"write it like `{example}`")
    try:
        return Decimal(match[1].replace("_", "")), match[2].lower()
    except InvalidOperation:
        raise InputError(f"{what} `{text[:80]}` is not a number", hint=f"write it like `{example}`") from None


def parse_bytes(text: str | int | float, *, what: str = "size") -> int:
    """Read a size such as `28GiB`, `512MB` or `1.5TiB` into bytes.

    A bare number counts GiB. Fractions of a byte are rounded to the nearest byte.
    Raises InputError for anything else, for negative sizes, for more than 2**60 bytes, and for a bare number above
    10,000: whoever wrote it thought of another unit.
    """
    number, unit = _split(str(text), what, "28GiB")
    factor = _SIZE_UNITS.get(unit or "gib")
    if factor is None:
        raise InputError(
            f"{what} `{text}` has the unknown unit `{unit}`", hint="use MiB, GiB or TiB (or MB, GB, TB)"
        )
    if number > MAX_BYTES or number * factor > MAX_BYTES:
        raise InputError(f"{what} `{text}` is absurdly large", hint="check the unit: a bare number means GiB")
    size = round(number * factor)
    if not unit and size > MAX_BARE_BYTES:
        bare = str(text).strip()
        raise InputError(
            f"{what} `{bare}` has no unit, and would be {format_bytes(size)}",
            hint=f"a bare number means GiB: write `{bare}B` for bytes, `{bare}MiB`, or `{bare}GiB`",
        )
    return size


def parse_tokens(text: str | int, *, what: str = "token count") -> int:
    """Read a token count such as `8192`, `32k` (32,000) or `128Ki` (131,072)."""
    number, unit = _split(str(text), what, "8192")
    if unit not in _TOKEN_UNITS:
        raise InputError(
            f"{what} `{text}` has the unknown unit `{unit}`", hint="use a plain number, or k, Ki, m, Mi"
        )
    value = number * _TOKEN_UNITS[unit] if number <= MAX_TOKENS else number
    if value > MAX_TOKENS:
        raise InputError(
            f"{what} `{text}` is absurdly large", hint="give the number of tokens, such as `8192`"
        )
    if value != int(value):
        raise InputError(
            f"{what} `{text}` is not a whole number of tokens", hint="give a whole number, such as `8192`"
        )
    return int(value)


def parse_duration(text: str | int | float, *, what: str = "duration") -> float:
    """Read a duration such as `30s`, `5m`, `1.5h` or `250ms` into seconds; a bare number is seconds."""
    seconds, rest = 0.0, str(text).strip()
    parts = re.findall(r"[0-9_.]+(?:e[+-]?[0-9]+)?\s*[a-z]*", rest, re.IGNORECASE)
    if not parts or "".join(parts).replace(" ", "") != rest.replace(" ", ""):
        parts = [rest]
    for part in parts:
        number, unit = _split(part, what, "5m")
        factor = _DURATION_UNITS.get(unit or "s")
        if factor is None:
            raise InputError(f"{what} `{text}` has the unknown unit `{unit}`", hint="use ms, s, m, h or d")
        seconds += float(number) * factor
    if not math.isfinite(seconds) or seconds > 1e10:
        raise InputError(f"{what} `{text}` is absurdly long", hint="use ms, s, m, h or d")
    return seconds


def parse_ratio(text: str | int | float, *, what: str = "ratio", maximum: float = 1.0) -> float:
    """Read a ratio as a fraction (`0.15`) or in percent (`15%`); bounds are 0 and `maximum`."""
    raw = str(text).strip()
    percent = raw.endswith("%")
    number, unit = _split(raw.removesuffix("%"), what, "0.15 or 15%")
    value = float(number) / (100 if percent else 1)
    if unit or value > maximum:
        raise InputError(
            f"{what} `{text}` is not between 0 and {maximum:g}", hint="write it like `0.15` or `15%`"
        )
    return value


def format_bytes(value: float | Fraction) -> str:
    """Bytes as a person reads them, three digits and an IEC unit: `1.00 GiB`, `80.0 KiB`."""
    magnitude = abs(float(value))
    for factor, name in ((PIB, "PiB"), (TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if magnitude >= factor:
            return f"{_three_digits(float(value) / factor)} {name}"
    return f"{float(value):g} B"


def format_gib(value: float | Fraction) -> str:
    """Bytes always in GiB, one decimal: columns that are compared stay in one unit."""
    return f"{float(value) / GIB:,.1f} GiB"


def column_format(largest: float | Fraction) -> Callable[[float | Fraction], str]:
    """How to write the sizes of one column: in GiB, or in MiB where even the `largest` is below 1 GiB."""
    return format_gib if float(largest) >= GIB else lambda value: f"{float(value) / MIB:,.1f} MiB"


def format_size(value: float | Fraction) -> str:
    """Bytes in a sentence: GiB as `format_gib` beside it, a smaller unit below 1 GiB, where one decimal says little."""
    return format_gib(value) if abs(float(value)) >= GIB else format_bytes(value)


def format_counted(count: float, noun: str) -> str:
    """`1 session`, `1,200 sessions`, `2 prefixes`: a count with its noun, whose plural is regular."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,.0f} {noun}{'es' if noun.endswith(('s', 'x')) else 's'}"


def format_count(value: float) -> str:
    """A count with thousands separators."""
    return f"{value:,.0f}"


def format_tokens(value: float) -> str:
    """Tokens with thousands separators."""
    return format_counted(value, "token")


def format_duration(seconds: float) -> str:
    """Seconds as a person reads them: `84 ms`, `2.31 s`, `5m 00s`, `3h 20m`."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes:02d}m"
    return f"{hours // 24}d {hours % 24}h"


def format_ratio(value: float) -> str:
    """A ratio in percent with one decimal: hit rates are compared in percentage points."""
    return f"{100 * value:.1f} %"


def _three_digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
