"""Fetch: errors, sessions, bounds and isolation."""

from __future__ import annotations

import pytest

from broker.kafka_api.fetch import ENTRY_OVERHEAD_BYTES
from protocol.error_codes import ErrorCode
from protocol.kafka.fetch import FetchPartition, FetchRequest
from protocol.record_batch import iterate_batches
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_fetches import (
    LAST_BY_NAME,
    MANY,
    answered,
    asked,
    by_id,
    fetch,
    fetched,
    filled,
    sizes,
    waiting,
    with_transactions,
)
from tests.support.native_broker import batch
from tests.support.producers import end_transaction

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- what is answered -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 19))
def test_given_records_when_fetched_then_they_come_in_every_version(version: int):
    with KafkaBroker() as broker:
        filled(broker, 10, batches=3)
        request = by_id(broker, asked(0, 1)) if version > LAST_BY_NAME else fetch(asked(0, 1))

        (found,) = answered(broker.answer(request, version))

        assert (found.partition_index, found.error_code, found.high_watermark) == (0, 0, 3)
        assert [each.base_offset for _, each in iterate_batches(found.records)] == [1, 2]
        assert (found.last_stable_offset, found.preferred_read_replica) == (3, -1)
        assert found.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize(
    ("partition", "error"),
    [
        (asked(0, 4), ErrorCode.OFFSET_OUT_OF_RANGE),
        (asked(0, -1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (asked(1), UNKNOWN),
        (asked(-1), UNKNOWN),
        (asked(0, 0, current_leader_epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_given_what_cannot_be_when_fetched_then_it_is_said_at_once(
    partition: FetchPartition, error: ErrorCode
):
    with KafkaBroker() as broker:
        filled(broker, 10, batches=3)
        request = fetch(partition, asked(0), max_wait_ms=10_000, min_bytes=MANY)

        bad, good = answered(broker.answer(request, LAST_BY_NAME))

        assert (bad.error_code, bad.high_watermark, len(bad.records)) == (error, -1, 0)
        assert (good.error_code, len(good.records) > 0) == (0, True)
        assert broker.kafka_errors("fetch") == {error: 1}


def test_given_an_older_leader_epoch_when_fetched_then_it_is_fenced():
    with KafkaBroker() as broker:
        filled(broker, 10)
        broker.partition("logs").log.begin_leader_epoch(3)

        old, same = fetched(
            broker, asked(0, current_leader_epoch=2), asked(0, current_leader_epoch=3)
        )

        assert (old.error_code, same.error_code) == (ErrorCode.FENCED_LEADER_EPOCH, 0)


def test_given_an_unknown_id_when_fetched_then_it_is_no_unknown_name():
    with KafkaBroker() as broker:
        filled(broker, 10)
        request = by_id(broker, asked(0))
        request.topics[0].topic_id = b"\x07" * 16

        (found,) = answered(broker.answer(request))

        assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_given_no_partition_when_fetched_then_nothing_is_waited_for():
    with KafkaBroker() as broker:
        response = broker.answer(FetchRequest(max_wait_ms=10_000, min_bytes=1))

        assert (response.error_code, response.responses) == (0, [])


@pytest.mark.parametrize(
    ("session", "epoch", "error"),
    [
        (0, -1, 0),
        (0, 0, 0),
        (5, -1, 0),  # it ends a session of another broker, and asks for all
        (5, 0, 0),
        (5, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (5, -2, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
@pytest.mark.parametrize("version", [7, 12])
def test_given_a_session_when_fetched_then_only_whole_requests_are_answered(
    session: int, epoch: int, error: int, version: int
):
    with KafkaBroker() as broker:
        filled(broker, 10)
        request = fetch(asked(0), session_id=session, session_epoch=epoch)

        response = broker.answer(request, version)

        assert (response.error_code, response.session_id) == (error, 0)
        assert len(response.responses) == (0 if error else 1)


# --- bounds (KIP-74) ------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(10, MANY), (MANY, 10), (0, MANY), (MANY, 0), (-1, -1)])
def test_given_a_first_batch_beyond_the_bounds_when_fetched_then_it_comes_alone_and_whole(
    bounds: tuple[int, int],
):
    with KafkaBroker() as broker:
        (size,) = filled(broker, 500, batches=2)
        partition_max, whole_max = bounds

        (found,) = fetched(broker, asked(0, 0, partition_max), max_bytes=whole_max)

        assert len(found.records) == size


@pytest.mark.parametrize("bounds", [(700, MANY), (MANY, 1_100)])
def test_given_a_batch_that_does_not_fit_when_fetched_behind_others_then_no_piece_of_it_comes(
    bounds: tuple[int, int],
):
    """Java clients raise an error for a partition with bytes and without a whole batch."""
    with KafkaBroker() as broker:
        small, large, small_too = filled(broker, 100, 1_000, 100)
        partition_max, whole_max = bounds
        partitions = [asked(number, 0, partition_max) for number in range(3)]

        found = fetched(broker, *partitions, max_bytes=whole_max)

        assert sizes(found) == [small, 0, small_too]
        assert large > 700
        assert [each.error_code for each in found] == [0, 0, 0]


def test_given_batches_that_do_not_fit_when_polled_then_their_bytes_are_not_waited_for():
    with KafkaBroker() as broker:
        small, large = filled(broker, 100, 1_000)

        found = fetched(
            broker, asked(0), asked(1), max_bytes=1_100, min_bytes=1_000, max_wait_ms=10_000
        )

        assert sizes(found) == [small, 0]
        assert small < 1_000 < small + large


def test_given_a_bound_of_the_broker_when_fetched_then_the_answer_is_no_larger():
    with KafkaBroker(settings={"limits.fetch_response_bytes_max": 1_024}) as broker:
        first, _ = filled(broker, 100, 100, batches=20)

        found = fetched(broker, asked(0), asked(1), max_bytes=MANY, min_bytes=MANY, max_wait_ms=9)

        assert sum(sizes(found)) == 1_024 - 2 * ENTRY_OVERHEAD_BYTES
        assert first * 20 > 1_024


def test_given_several_batches_when_the_bound_cuts_one_then_those_before_are_whole():
    with KafkaBroker() as broker:
        first, second = filled(broker, 100, 100, batches=5)

        found = fetched(broker, asked(0), asked(1, 0, 2 * second + 50))

        assert sizes(found) == [5 * first, 2 * second + 50]


def test_given_a_partition_with_an_error_when_fetched_then_it_takes_no_room():
    with KafkaBroker() as broker:
        _, size = filled(broker, 900, 900)

        bad, good = fetched(broker, asked(0, current_leader_epoch=9), asked(1), max_bytes=500)

        assert bad.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert len(good.records) == size


# --- isolation ------------------------------------------------------------------------------------


def test_given_open_transactions_when_read_committed_then_it_ends_before_the_first():
    with KafkaBroker() as broker:
        with_transactions(broker)

        (found,) = fetched(broker, asked(0), isolation_level=1)

        assert [each.base_offset for _, each in iterate_batches(found.records)] == [0, 1, 2]
        assert (found.high_watermark, found.last_stable_offset) == (5, 3)
        aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions]
        assert aborted == [(7, 1)]


def test_given_transactions_when_read_uncommitted_then_all_comes_and_none_is_named():
    with KafkaBroker() as broker:
        with_transactions(broker)

        (found,) = fetched(broker, asked(0))

        assert [each.base_offset for _, each in iterate_batches(found.records)] == [0, 1, 2, 3, 4]
        assert (found.last_stable_offset, found.aborted_transactions) == (3, None)


def test_given_a_poll_of_committed_records_when_a_transaction_ends_then_it_is_answered():
    with KafkaBroker() as broker:
        with_transactions(broker)
        sent = waiting(broker, asked(0, 3), isolation_level=1)

        broker.produce("logs", batch(b"not stable"))
        assert sent.is_waiting
        end_transaction(broker.partition("logs").log, 8, commit=True)
        broker.loop.settle()

        (found,) = answered(sent.response)
        assert (found.last_stable_offset, found.aborted_transactions) == (7, [])


def test_given_an_internal_topic_when_fetched_then_clients_may_read_it():
    with KafkaBroker() as broker:
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        (found,) = fetched(broker, asked(0), topic="__consumer_offsets")

        assert found.error_code == 0
