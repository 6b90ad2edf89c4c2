"""Kafka's DumpLogSegments reads our producer snapshots and transaction indexes.

The snapshots have more behind Kafka's entries (ADR 0010).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.clock import ManualClock
from broker.storage.log_config import LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.os_disk import OsDisk
from protocol.identifiers import TopicPartition
from protocol.stored import producer_snapshot, transaction_index
from tests.support.kafka_jars import KafkaPrograms
from tests.support.log_storage import NOW_MS, TOPIC_ID
from tests.support.producers import end_transaction, send, send_in_transaction

pytestmark = pytest.mark.timeout(900)  # the jars may have to be fetched first

PARTITION = TopicPartition("made", 0)
SNAPSHOT = re.compile(
    r"producerId: (\d+) producerEpoch: (-?\d+) coordinatorEpoch: (-?\d+) "
    r"currentTxnFirstOffset: (\S+) lastTimestamp: (-?\d+)"
    r"(?: firstSequence: (-?\d+) lastSequence: (-?\d+) lastOffset: (-?\d+) offsetDelta: (-?\d+))?"
)
ABORTED = re.compile(
    r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of producers with many batches, transactions that were ended and one left open."""
    root = tmp_path_factory.mktemp("made")
    config = LogConfig(segment_bytes=1_500, index_interval_bytes=200)
    directory = LogDirectory.open(OsDisk(), root, ManualClock(NOW_MS), lambda topic: config)
    log = directory.create_log(PARTITION, TOPIC_ID, config)
    for number in range(40):
        send(log, 7, number * 2, count=2)
        send_in_transaction(log, 8, number % 10, epoch=number // 10)
        if number % 10 == 9:
            end_transaction(log, 8, commit=number == 19, epoch=number // 10 + 1)
        log.flush()
    send_in_transaction(log, 9, 0)
    directory.close()
    return root / str(PARTITION)


def test_given_our_snapshots_when_kafka_dumps_them_then_it_sees_every_producer(
    kafka: KafkaPrograms, written: Path
) -> None:
    snapshots = sorted(written.glob("*.snapshot"))
    ours = [producer_snapshot.decode_all(path.read_bytes()) for path in snapshots]
    assert sum(bool(each.earlier) for each in ours) > 2
    assert sum(each.index_checksum is not None for each in ours) > 2

    said = kafka.dump(snapshots)

    assert "orrupt" not in said
    found = SNAPSHOT.findall(said)
    expected = [entry for each in ours for entry in each.entries]
    assert len(found) == len(expected)
    for text, entry in zip(found, expected, strict=True):
        assert [int(each) for each in (*text[:3], text[4])] == [
            entry.producer_id, entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp,
        ]  # fmt: skip
        if entry.last_offset >= 0:
            assert [int(each) for each in text[6:]] == [
                entry.last_sequence, entry.last_offset, entry.offset_delta,
            ]  # fmt: skip
        is_open = entry.current_txn_first_offset >= 0
        assert text[3] == (
            f"OptionalLong[{entry.current_txn_first_offset}]" if is_open else "OptionalLong.empty"
        )


def test_given_our_transaction_indexes_when_kafka_dumps_them_then_it_sees_what_was_aborted(
    kafka: KafkaPrograms, written: Path
) -> None:
    paths = sorted(written.glob("*.txnindex"))
    expected = [entry for path in paths for entry in transaction_index.decode(path.read_bytes())]
    assert len(expected) == 3

    said = kafka.dump(paths)

    assert [tuple(map(int, each)) for each in ABORTED.findall(said)] == expected
