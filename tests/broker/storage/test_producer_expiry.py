"""Producers that are forgotten: by time, and by how many a partition may know."""

from __future__ import annotations

import pytest

from broker.storage.housekeeping import Housekeeping
from broker.storage.storage_options import StorageOptions
from protocol.errors import TooManyProducersError
from tests.support.log_storage import LogStorage
from tests.support.producers import joined, producer_batch, send, send_in_transaction


def test_given_a_silent_producer_when_a_day_has_passed_then_it_is_forgotten():
    storage = LogStorage(options=StorageOptions(producer_id_expiration_ms=1_000))
    log = storage.log
    send(log, 7, 5)
    send_in_transaction(log, 8, 5)
    storage.clock.advance(ms=999)
    assert log.producers.expire(storage.clock.now_ms(), 1_000) == 0

    storage.clock.advance(ms=1)

    assert log.producers.expire(storage.clock.now_ms(), 1_000) == 1
    assert list(log.producers.producers) == [8]  # it has a transaction open
    assert not send(log, 7, 5).is_duplicate


def test_given_old_record_timestamps_when_written_now_then_the_producer_is_not_silent():
    """Copying old data is no reason to forget who copies it (Kafka looks at record timestamps)."""
    storage = LogStorage()
    storage.log.append(producer_batch(7, 0, timestamp=1_000))
    now_ms = storage.clock.now_ms()

    assert storage.log.producers.expire(now_ms, 86_400_000) == 0
    storage.flush()
    assert list(storage.restart().producers.producers) == [7]
    storage.clock.advance(ms=86_400_000)
    assert list(storage.restart().producers.producers) == []


def test_given_housekeeping_when_its_time_has_come_then_silent_producers_are_forgotten():
    storage = LogStorage(options=StorageOptions(producer_id_expiration_ms=60_000))
    housekeeping = Housekeeping(storage.directory)
    send(storage.log, 7, 0)
    storage.clock.advance(ms=599_000)
    housekeeping.turn(storage.clock.monotonic())
    assert list(storage.log.producers.producers) == [7]

    storage.clock.advance(ms=1_000)
    housekeeping.turn(storage.clock.monotonic())

    assert list(storage.log.producers.producers) == []


def test_given_more_producers_than_the_bound_when_they_come_then_the_longest_idle_are_forgotten():
    storage = LogStorage(options=StorageOptions(producers_per_partition_max=20))
    log = storage.log
    for producer_id in range(1_000):
        send(log, producer_id, 0)
        send(log, 5_000, producer_id)
        assert len(log.producers.producers) <= 20

    assert send(log, 5_000, 999).is_duplicate  # who writes is not forgotten
    assert send(log, 999, 0).is_duplicate
    assert not send(log, 0, 0).is_duplicate  # but who is idle


def test_given_one_set_with_more_producers_than_the_bound_when_appended_then_it_holds():
    storage = LogStorage(options=StorageOptions(producers_per_partition_max=20))

    storage.log.append(joined(*(producer_batch(number, 0) for number in range(100))))

    assert len(storage.log.producers.producers) <= 20
    assert send(storage.log, 99, 0).is_duplicate


def test_given_only_open_transactions_when_another_producer_comes_then_it_is_to_try_again():
    storage = LogStorage(options=StorageOptions(producers_per_partition_max=10))
    for producer_id in range(10):
        send_in_transaction(storage.log, producer_id, 0)

    with pytest.raises(TooManyProducersError) as caught:
        send(storage.log, 99, 0)

    assert caught.value.code == 89
    assert storage.log.log_end_offset == 10
    send_in_transaction(storage.log, 3, 1)


def test_given_open_transactions_among_many_producers_when_they_come_then_those_stay():
    storage = LogStorage(options=StorageOptions(producers_per_partition_max=10))
    log = storage.log
    for producer_id in range(4):
        send_in_transaction(log, producer_id, 0)

    for producer_id in range(100, 150):
        send(log, producer_id, 0)

    assert len(log.producers.producers) <= 10
    assert {0, 1, 2, 3} <= log.producers.producers.keys()
    storage.flush()
    assert log.last_stable_offset == 0
