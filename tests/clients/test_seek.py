"""Clients find their place by offset and by time, and learn where a partition begins and ends."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode
from tests.clients.adapters.client import NOW_MS, Client, Record

STEP_MS = 1_000


@pytest.fixture
def filled(client: Client, topic: str) -> str:
    """A topic with 200 records, a second from each to the next, in several batches."""
    records = [
        Record(b"%d" % number, timestamp_ms=NOW_MS + number * STEP_MS) for number in range(200)
    ]
    for start in range(0, 200, 40):
        client.send(topic, records[start : start + 40])
    return topic


@pytest.mark.parametrize("offset", [0, 1, 39, 40, 57, 199])
def test_given_an_offset_when_sought_then_reading_starts_exactly_there(
    client: Client, filled: str, offset: int
) -> None:
    found = client.read(filled, 1, offset=offset)

    assert [(one, record.value) for one, record in found] == [(offset, b"%d" % offset)]


def test_given_times_when_looked_up_then_they_lead_to_the_first_record_of_that_time_or_later(
    client: Client, filled: str
) -> None:
    assert client.offset_at(filled, NOW_MS - 1) == 0
    assert client.offset_at(filled, NOW_MS) == 0
    assert client.offset_at(filled, NOW_MS + 57 * STEP_MS) == 57
    assert client.offset_at(filled, NOW_MS + 57 * STEP_MS + 1) == 58
    assert client.offset_at(filled, NOW_MS + 199 * STEP_MS) == 199
    assert client.offset_at(filled, NOW_MS + 199 * STEP_MS + 1) is None


def test_given_a_topic_when_asked_for_its_bounds_then_they_follow_what_is_sent_and_deleted(
    client: Client, topic: str
) -> None:
    assert client.bounds(topic) == (0, 0)

    client.send(topic, [Record(b"x")] * 10)
    assert client.bounds(topic) == (0, 10)

    client.delete_records(topic, 4)
    assert client.bounds(topic) == (4, 10)
    assert [offset for offset, _ in client.read(topic, 6, offset=4)] == list(range(4, 10))


def test_given_an_offset_that_is_deleted_when_sought_then_reading_starts_anew_where_there_is_some(
    client: Client, filled: str
) -> None:
    client.delete_records(filled, 150)

    found = client.read(filled, 50, offset=10)

    assert [offset for offset, _ in found] == list(range(150, 200))


def test_given_no_reset_when_the_offset_is_out_of_range_then_that_is_the_error(
    client: Client, filled: str
) -> None:
    with client.raises(ErrorCode.OFFSET_OUT_OF_RANGE):
        client.read(filled, 1, offset=1_000, resets=False)


def test_given_an_empty_topic_when_read_then_nothing_comes_until_something_is_sent(
    client: Client, topic: str
) -> None:
    assert client.read(topic, 1, wait_s=0.3) == []
    assert client.offset_at(topic, 0) is None

    client.send(topic, [Record(b"first")])

    assert [record.value for _, record in client.read(topic, 1)] == [b"first"]
