"""Units are read and written in one place; every odd spelling has one meaning or a clear error."""

import pytest

from warmset.errors import InputError
from warmset.units import (
    GIB,
    MAX_BYTES,
    column_format,
    format_bytes,
    format_counted,
    format_duration,
    format_gib,
    format_ratio,
    format_size,
    format_tokens,
    parse_bytes,
    parse_duration,
    parse_ratio,
    parse_tokens,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("28GiB", 28 * GIB),
        ("28", 28 * GIB),
        ("28 gib", 28 * GIB),
        ("28Gi", 28 * GIB),
        ("28GB", 28 * 10**9),
        ("1.5TiB", 3 * 2**39),
        ("0.5", GIB // 2),
        (".5", GIB // 2),
        ("1_000MiB", 1000 * 2**20),
        ("0", 0),
        (28, 28 * GIB),
        ("128B", 128),
        ("1e3GB", 10**12),
    ],
)
def test_sizes(text: str | int, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "GiB", "-1GiB", "1.2.3GiB", "1 GiB of RAM", "1XB", "nan", "inf", "1e999GiB", "9" * 400, "０1GiB"],
)
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_bytes(text)
    assert "`" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("text", ["1073741824", "57344", " 10001", "1e6", "10000.5"])
def test_a_bare_number_that_no_machine_has_is_no_number_of_gib(text: str) -> None:
    """57,344 is what `nvidia-smi` prints for 56 GiB, 1,073,741,824 are the bytes of one."""
    with pytest.raises(InputError, match=f"`{text.strip()}` has no unit") as caught:
        parse_bytes(text)
    bare = text.strip()
    for written in (f"{bare}B", f"{bare}MiB", f"{bare}GiB"):
        assert f"`{written}`" in (caught.value.hint or "")
        parse_bytes(written)


def test_bare_numbers_are_gib_up_to_what_machines_have() -> None:
    assert parse_bytes("10000") == 10_000 * GIB
    assert parse_bytes("20480GiB") == 20 * 2**40


def test_the_largest_size_is_bounded() -> None:
    assert parse_bytes("1048576TiB") == MAX_BYTES
    with pytest.raises(InputError, match="absurdly large"):
        parse_bytes("1048577TiB")


@pytest.mark.parametrize(
    ("text", "expected"), [("8192", 8192), ("32k", 32000), ("128Ki", 131072), ("1.5k", 1500), ("1_000", 1000)]
)
def test_tokens(text: str, expected: int) -> None:
    assert parse_tokens(text) == expected


@pytest.mark.parametrize("text", ["1.5", "-3", "8192GiB", "", "many", "1e300"])
def test_tokens_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        parse_tokens(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30", 30), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("2d", 172800), ("1.5 h", 5400)],
)
def test_durations(text: str, expected: float) -> None:
    assert parse_duration(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["-5m", "5 weeks", "m", "", "1e40s", "5m!"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("0.15", 0.15), ("15%", 0.15), ("0", 0), ("1", 1), ("100%", 1)]
)
def test_ratios(text: str, expected: float) -> None:
    assert parse_ratio(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["1.5", "-0.1", "150%", "x", "15%%", "0.15GiB"])
def test_ratios_that_are_none(text: str) -> None:
    with pytest.raises(InputError):
        parse_ratio(text)


def test_what_people_read() -> None:
    assert format_bytes(131072) == "128 KiB"
    assert format_bytes(GIB) == "1.00 GiB"
    assert format_bytes(28 * GIB) == "28.0 GiB"
    assert format_bytes(0) == "0 B"
    assert format_gib(197.8 * GIB) == "197.8 GiB"
    assert format_ratio(0.2157) == "21.6 %"
    assert format_duration(0.084) == "84 ms"
    assert format_duration(0.0000005) == "0 µs"
    assert format_duration(2.31) == "2.31 s"
    assert format_duration(300) == "5m 00s"
    assert format_duration(59.999) == "60 s"
    assert format_duration(12000) == "3h 20m"
    assert format_duration(300000) == "3d 11h"


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (2**21, "2.00 MiB"), (GIB - 2**21, "1,022 MiB"), (GIB, "1.0 GiB"), (200 * GIB, "200.0 GiB")],
)
def test_a_size_in_a_sentence_is_never_a_zero_that_is_none(size: int, words: str) -> None:
    assert format_size(size) == words


def test_a_column_has_one_unit() -> None:
    assert [column_format(28 * GIB)(size) for size in (28 * GIB, 2**20)] == ["28.0 GiB", "0.0 GiB"]
    assert [column_format(12 * 2**20)(size) for size in (12 * 2**20, 2**19)] == ["12.0 MiB", "0.5 MiB"]


def test_one_is_singular() -> None:
    assert [format_counted(n, "session") for n in (0, 1, 2, 1200)] == [
        "0 sessions",
        "1 session",
        "2 sessions",
        "1,200 sessions",
    ]
    assert [format_counted(n, "block access") for n in (1, 2)] == ["1 block access", "2 block accesses"]
    assert format_tokens(1) == "1 token"
