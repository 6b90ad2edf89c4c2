"""Starts: times to milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.starts import start_time_ms, time_or_log_end


@given(ms=st.integers(0, 4_000_000_000_000), zone_hours=st.integers(-12, 12))
def test_given_a_time_in_any_zone_when_turned_into_milliseconds_then_to_the_millisecond(
    ms: int, zone_hours: int
) -> None:
    zone = timezone(timedelta(hours=zone_hours))

    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)

    assert start_time_ms(start.astimezone(zone)) == ms


@pytest.mark.parametrize("ms", [1, 2, 3, 10_000_000])
def test_given_a_time_before_1970_when_asked_for_then_it_means_the_beginning(ms: int) -> None:
    """-1 and -2 have other meanings on the wire: the end of the log, and its beginning."""
    start = datetime(1970, 1, 1, tzinfo=UTC) - timedelta(milliseconds=ms)

    assert start_time_ms(start) == 0


def test_given_no_time_zone_when_asked_for_then_a_clear_error() -> None:
    with pytest.raises(ValueError, match="time zone"):
        start_time_ms(datetime(2026, 1, 1))


def test_given_no_message_so_late_when_asked_for_then_the_logs_end() -> None:
    assert time_or_log_end([], 9) == 9
    assert time_or_log_end([4], 9) == 4
