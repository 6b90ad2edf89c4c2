"""Sizes and durations: what a person writes and what the program counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.quantities import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("-1", -1),
        ("4_096", 4096),
        ("1B", 1),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("1 GiB", 2**30),
        ("1gib", 2**30),
        ("1.5MiB", 1_572_864),
        ("100MB", 100_000_000),
        (" 2TiB ", 2**41),
    ],
)
def test_given_a_size_when_parsed_then_it_is_bytes(text, size_bytes):
    parsed = parse_size(text)

    assert parsed == size_bytes


@pytest.mark.parametrize("text", ["", "1G", "GiB", "1.3B", "1GiB 2", "0x10", "1e3", "--1", "٣"])
def test_given_no_size_when_parsed_then_the_error_says_what_one_is(text):
    with pytest.raises(ValueError, match=r"GiB|whole number of bytes"):
        parse_size(text)


@pytest.mark.parametrize(("text", "meant"), [("1G", "1GiB"), ("64k", "64KiB"), ("1.5T", "1.5TiB")])
def test_given_a_prefix_alone_when_parsed_then_the_error_says_what_may_be_meant(text, meant):
    with pytest.raises(ValueError, match=rf"; did you mean {meant}\?$"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("250", 250),
        ("-1", -1),
        ("250ms", 250),
        ("7d", 604_800_000),
        ("1h30m", 5_400_000),
        ("1h 30min", 5_400_000),
        ("0.5s", 500),
        ("2w", 1_209_600_000),
    ],
)
def test_given_a_duration_when_parsed_then_it_is_milliseconds(text, duration_ms):
    parsed = parse_duration(text)

    assert parsed == duration_ms


@pytest.mark.parametrize("text", ["", "d", "7 days", "1.5", "0.1ms", "1h-5m", "7D"])
def test_given_no_duration_when_parsed_then_the_error_says_what_one_is(text):
    with pytest.raises(ValueError, match=r"min|whole number of milliseconds"):
        parse_duration(text)


@given(size_bytes=st.integers(-1, 2**63 - 1) | st.integers(0, 4000).map(lambda n: n * 2**20))
def test_given_any_size_when_formatted_then_it_parses_to_itself(size_bytes):
    text = format_size(size_bytes)

    assert parse_size(text) == size_bytes


@given(ms=st.integers(-1, 2**63 - 1) | st.integers(0, 10**6).map(lambda n: n * 60_000))
def test_given_any_duration_when_formatted_then_it_parses_to_itself(ms):
    text = format_duration(ms)

    assert parse_duration(text) == ms


def test_given_common_values_when_formatted_then_they_are_short():
    texts = [format_size(2**30), format_size(1_048_588), format_duration(604_800_000)]

    assert texts == ["1GiB", "1048588", "7d"]
