"""Amounts as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.units import format_bytes, format_seconds, parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        ("2s", 2.0),
        ("2 s", 2.0),
        ("100ms", 0.1),
        ("50us", 50e-6),
        (".5s", 0.5),
        ("1.5m", 90.0),
        ("2min", 120.0),
        ("1H", 3600.0),
        ("0", 0.0),
    ],
)
def test_seconds_are_read_with_their_unit(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("64k", 64 << 10),
        ("64KB", 64 << 10),
        ("256M", 256 << 20),
        ("256 MiB", 256 << 20),
        ("1G", 1 << 30),
        ("1.5g", 3 << 29),
        ("2T", 2 << 40),
        ("10b", 10),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "s", "-1s", "1e3", "nan", "inf", "2 parsecs", "1s2", "٣s", "0x10", "1" * 400])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="time|unit|large"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["", "M", "-1M", "1.5", "1E", "1 iB", "nan", "0.3K", "1,5M", "1" * 400])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size|unit|large|whole"):
        parse_bytes(text)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused_with_a_value_error(text: str) -> None:
    for parse in (parse_seconds, parse_bytes):
        try:
            assert parse(text) >= 0
        except ValueError as error:
            assert repr(text) in str(error)


@given(st.integers(0, 1 << 53))
def test_plain_bytes_are_exact(size: int) -> None:
    assert parse_bytes(str(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1 MiB"),
        (256 << 20, "256 MiB"),
        (5 << 50, "5 PiB"),
        (1 << 60, "1 EiB"),
        (5 << 70, "5120 EiB"),
    ],
)
def test_sizes_are_written_short(size: int, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 us"), (12e-6, "12 us"), (0.0034, "3.4 ms"), (1.25, "1.25 s"), (119.0, "119 s"), (120, "2 min")],
)
def test_times_are_written_short(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
