"""Times, as people write and read them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.times import parse_time, time_ms, time_text


@given(timestamp_ms=st.integers(0, 250_000_000_000_000))
def test_given_a_timestamp_when_shown_and_read_then_it_is_the_same(timestamp_ms):
    shown = time_text(timestamp_ms)

    assert time_ms(parse_time(shown)) == timestamp_ms


@pytest.mark.parametrize("timestamp_ms", [-1, -(2**63), 2**63 - 1])
def test_given_no_time_that_a_calendar_has_when_shown_then_there_is_none(timestamp_ms):
    assert time_text(timestamp_ms) is None


@pytest.mark.parametrize("text", ["1700-01-01T00:00Z", "1969-12-31T23:59:59.999Z"])
def test_given_a_time_before_the_epoch_when_asked_for_then_it_means_nothing_else(text):
    assert time_ms(parse_time(text)) == 0


def test_given_a_zone_when_read_then_it_counts():
    moment = parse_time("2026-11-21T08:00:00+02:00")

    assert moment == datetime(2026, 11, 21, 6, tzinfo=UTC)
    assert moment == datetime(2026, 11, 21, 8, tzinfo=timezone(timedelta(hours=2)))


def test_given_no_zone_when_read_then_it_is_local_time():
    moment = parse_time("2026-11-21T08:00")

    assert moment.replace(tzinfo=None) == datetime(2026, 11, 21, 8)
    assert moment == datetime(2026, 11, 21, 8).astimezone()


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "12:00"])
def test_given_no_time_when_read_then_it_is_refused(text):
    with pytest.raises(ValueError):
        parse_time(text)
