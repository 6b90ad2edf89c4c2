"""ProducerRoom: what all partitions of a broker may remember of producers together."""

from __future__ import annotations

import msgspec
import pytest

from broker.storage.partition_log import PartitionLog
from broker.storage.storage_options import StorageOptions
from protocol.errors import TooManyProducersError
from protocol.identifiers import TopicPartition
from tests.support.log_storage import TOPIC_ID, LogStorage
from tests.support.producers import joined, producer_batch, send, send_in_transaction

OPTIONS = StorageOptions(producers_max=100, producers_per_partition_max=80)


class Logs:
    """A directory with some partitions."""

    def __init__(self, count: int, options: StorageOptions = OPTIONS) -> None:
        self.storage = LogStorage(options=options)
        for number in range(1, count):
            partition = TopicPartition("tide", number)
            self.storage.directory.create_log(partition, TOPIC_ID, self.storage.config)

    @property
    def all(self) -> list[PartitionLog]:
        return list(self.storage.directory.logs.values())

    def known(self) -> list[int]:
        """How many producers each partition remembers; what is counted is that."""
        found = [len(log.producers.producers) for log in self.all]
        assert self.storage.directory.context.producer_room.count == sum(found)
        return found


def test_given_made_up_ids_in_one_partition_when_room_is_taken_then_others_keep_what_they_have():
    logs = Logs(4)
    first, *others = logs.all
    for log in others:
        for producer_id in range(10):
            send(log, producer_id, 0)

    for producer_id in range(1_000, 3_000):
        send(first, producer_id, 0)
        assert sum(logs.known()) <= 100

    assert logs.known()[1:] == [10, 10, 10]
    assert send(first, 2_999, 0).is_duplicate
    assert send(others[0], 0, 0).is_duplicate


def test_given_made_up_ids_in_all_partitions_when_they_come_then_all_together_are_bounded():
    logs = Logs(5)
    for number in range(2_000):
        send(logs.all[number % 5], number, 0)
        assert sum(logs.known()) <= 100

    assert all(send(log, 1_995 + number, 0).is_duplicate for number, log in enumerate(logs.all))


def test_given_a_set_of_many_producers_when_appended_then_it_holds():
    logs = Logs(2)
    send(logs.all[1], 7, 0)

    logs.all[0].append(joined(*(producer_batch(number, 0) for number in range(300))))

    assert sum(logs.known()) <= 100
    assert send(logs.all[0], 299, 0).is_duplicate


def test_given_open_transactions_only_when_another_producer_comes_then_it_is_to_try_again():
    logs = Logs(2)
    for number in range(100):
        send_in_transaction(logs.all[number % 2], number, 0)

    with pytest.raises(TooManyProducersError):
        send(logs.all[0], 5_000, 0)

    assert logs.known() == [50, 50]
    send_in_transaction(logs.all[0], 0, 1)


def test_given_logs_when_closed_deleted_or_silent_then_their_room_is_free():
    logs = Logs(3)
    for log in logs.all:
        send(log, 7, 0)
        send(log, 8, 0)
    assert logs.known() == [2, 2, 2]

    logs.all[2].close()
    logs.storage.directory.delete_log(logs.all[1].topic_partition)
    logs.storage.clock.advance(ms=86_400_000)
    logs.all[0].producers.expire(logs.storage.clock.now_ms(), 86_400_000)

    assert logs.storage.directory.context.producer_room.count == 0


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_given_lower_bounds_when_started_then_who_was_idle_longest_is_forgotten(way):
    """As with a directory of Kafka's, which knows no bound."""
    logs = Logs(2, StorageOptions())
    for log in logs.all:
        for producer_id in range(150):
            send(log, producer_id, 0)
        log.flush()
    logs.storage.options = msgspec.structs.replace(OPTIONS, producers_per_partition_max=60)

    getattr(logs.storage, way)()

    assert sum(logs.known()) <= 100
    assert max(logs.known()) <= 60
    assert all(send(log, 149, 0).is_duplicate for log in logs.all)


def test_given_a_cut_when_producers_are_loaded_anew_then_they_are_counted_anew():
    logs = Logs(2)
    for producer_id in range(20):
        send(logs.all[0], producer_id, 0)

    logs.all[0].truncate_to(5)

    assert logs.known() == [5, 0]
