"""What is written can be read back."""

from hypothesis import given
from hypothesis import strategies as st

from warmset.errors import InputError
from warmset.units import parse_bytes, parse_duration, parse_ratio, parse_tokens


@given(st.integers(0, 2**60))
def test_bytes_round_trip(value: int) -> None:
    assert parse_bytes(f"{value}B") == value


@given(st.integers(0, 2**20), st.sampled_from(["KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB"]))
def test_units_scale(value: int, unit: str) -> None:
    assert parse_bytes(f"{value}{unit}") == value * parse_bytes(f"1{unit}")


@given(st.integers(0, 2**53))
def test_tokens_round_trip(value: int) -> None:
    assert parse_tokens(str(value)) == parse_tokens(f"{value:_}") == value


@given(st.text(max_size=40))
def test_any_text_is_a_value_or_a_clear_error(text: str) -> None:
    for parse in (parse_bytes, parse_tokens, parse_duration, parse_ratio):
        try:
            assert parse(text) >= 0
        except InputError as error:
            assert error.hint
