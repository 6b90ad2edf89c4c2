"""Transactional and idempotent logs that real Apache Kafka wrote: what it says is what we say."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from broker.clock import ManualClock
from broker.storage.log_config import CleanupPolicy, LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.os_disk import OsDisk
from broker.storage.partition_log import PartitionLog
from protocol.stored import producer_snapshot, transaction_index
from tests.support.producers import committed_offsets, end_transaction

DATA = Path(__file__).parents[2] / "data/kafka-transactions"
EXPECTED: dict[str, dict[str, Any]] = json.loads((DATA / "expected.json").read_text())
PARTITIONS = sorted(EXPECTED)
NOT_CLEANED = [name for name in PARTITIONS if not name.startswith("compacted")]
WRITTEN_AT_MS = 1_750_000_000_000


class Copy:
    """A data directory with a copy of one partition, without checkpoints: an unclean start."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.partition = root, root / name
        shutil.copytree(DATA / name, self.partition)
        self.directory: LogDirectory | None = None
        self.clock = ManualClock(WRITTEN_AT_MS)

    def remove(self, pattern: str) -> None:
        for path in self.partition.glob(pattern):
            path.unlink()

    def open(self) -> PartitionLog:
        policy = CleanupPolicy.DELETE
        if self.partition.name.startswith("compacted"):
            policy = CleanupPolicy.COMPACT
        config = LogConfig(cleanup_policy=policy, retention_ms=-1)
        self.directory = LogDirectory.open(OsDisk(), self.root, self.clock, lambda topic: config)
        (log,) = self.directory.logs.values()
        return log

    def close(self) -> None:
        if self.directory is not None:
            self.directory.close()
            self.directory = None


@pytest.fixture
def copy_of(tmp_path):
    copies = []

    def make(name: str) -> Copy:
        copies.append(Copy(tmp_path, name))
        return copies[-1]

    yield make
    for each in copies:
        each.close()


def runs(offsets: list[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found


def check(log: PartitionLog, name: str) -> None:
    expected = EXPECTED[name]
    assert log.log_start_offset == expected["earliest"]
    assert log.log_end_offset == log.high_watermark == expected["stored_end"]
    assert log.last_stable_offset == expected["last_stable"]
    for max_bytes in (300, 1 << 20):
        assert runs(committed_offsets(log, max_bytes)) == expected["read_committed_offsets"]


@pytest.mark.parametrize("name", PARTITIONS)
@pytest.mark.parametrize("lost", ["nothing", "*.snapshot", "*.txnindex", "*[tx][no]*"])
def test_given_kafkas_files_when_started_then_what_is_committed_is_what_kafka_serves(
    copy_of, name, lost
):
    """R23, R36: with its hints and without, after an unclean start and after a clean one."""
    copy = copy_of(name)
    copy.remove(lost)
    if lost == "*[tx][no]*":
        copy.remove("*.snapshot")
        copy.remove("*.txnindex")
        copy.remove("leader-epoch-checkpoint")

    check(copy.open(), name)

    copy.close()
    check(copy.open(), name)


def without_last_entry(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: -transaction_index.ENTRY_BYTES])


@pytest.mark.parametrize("name", [name for name in PARTITIONS if name != "idempotent-0"])
@pytest.mark.parametrize("wound", [Path.unlink, without_last_entry])
def test_given_a_transaction_index_of_kafkas_that_lost_some_when_started_cleanly_then_it_is_seen(
    copy_of, name, wound
):
    """No checksum of Kafka's covers that file, and a clean start walks no segment."""
    names = [each.name for each in (DATA / name).glob("*.txnindex") if each.stat().st_size]
    assert len(names) > 3

    for lost in (names[:1], names[-1:], names):
        copy = copy_of(name)
        end = EXPECTED[name]["stored_end"]
        topic, _, partition = name.rpartition("-")
        points = f"0\n1\n{topic} {partition} {end}\n"
        (copy.root / "recovery-point-offset-checkpoint").write_text(points)
        (copy.root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
        for each in lost:
            wound(copy.partition / each)

        log = copy.open()

        assert copy.directory is not None
        assert copy.directory.summary.checked_bytes == 0, "recovery would build it anew"
        check(log, name)
        copy.close()
        shutil.rmtree(copy.root)


@pytest.mark.parametrize("name", NOT_CLEANED)
def test_given_kafkas_batches_when_walked_then_they_give_the_snapshots_that_kafka_wrote(
    copy_of, name
):
    """For each snapshot the log is cut there, and its producers are what Kafka's file says."""
    copy = copy_of(name)
    copy.remove("*.snapshot")
    log = copy.open()
    snapshots = sorted((DATA / name).glob("*.snapshot"), reverse=True)
    assert len(snapshots) > 3

    for path in snapshots:
        offset = int(path.stem)
        assert log.truncate_to(offset) == offset
        known = {each.producer_id: each.to_entry() for each in log.producers.producers.values()}
        entries = {each.producer_id: each for each in producer_snapshot.decode(path.read_bytes())}
        if name != "idempotent-0" or offset < 208:  # there Kafka had forgotten some, at a restart
            assert known == entries
        assert {each: known[each] for each in entries} == entries


@pytest.mark.parametrize("name", NOT_CLEANED)
def test_given_kafkas_batches_when_recovered_then_indexes_and_epochs_are_kafkas_byte_for_byte(
    copy_of, name
):
    copy = copy_of(name)
    copy.remove("*.txnindex")
    copy.remove("leader-epoch-checkpoint")

    copy.open()

    written = {each.name: each.read_bytes() for each in copy.partition.glob("*.txnindex")}
    kafkas = {
        each.name: each.read_bytes()
        for each in (DATA / name).glob("*.txnindex")
        if each.stat().st_size
    }
    assert written == kafkas
    if name != "idempotent-0":
        assert sum(len(transaction_index.decode(data)) for data in kafkas.values()) > 5
    epochs = "leader-epoch-checkpoint"
    assert (copy.partition / epochs).read_bytes() == (DATA / name / epochs).read_bytes()


@pytest.mark.parametrize("name", NOT_CLEANED)
def test_given_kafkas_indexes_when_nothing_was_lost_then_they_are_left_as_they_are(copy_of, name):
    copy = copy_of(name)
    before = {each.name: each.read_bytes() for each in copy.partition.glob("*.txnindex")}
    log = copy.open()
    committed_offsets(log)

    after = {each.name: each.read_bytes() for each in copy.partition.glob("*.txnindex")}

    assert {each: data for each, data in before.items() if data} == {
        each: data for each, data in after.items() if data
    }


def test_given_the_transaction_that_kafka_left_open_when_ended_then_the_stable_offset_moves(
    copy_of,
):
    log = copy_of("txn-0").open()
    assert log.producers.ongoing == {1006: 269}
    producer = log.producers.producers[1006]

    end_transaction(
        log, 1006, commit=False, epoch=producer.epoch, coordinator_epoch=producer.coordinator_epoch
    )
    log.flush()

    assert log.last_stable_offset == log.high_watermark == 284
    assert log.aborted_transactions(269, 284) == [(1007, 277), (1006, 269)]
    committed = committed_offsets(log)
    assert (
        runs(committed)[: len(EXPECTED["txn-0"]["read_committed_offsets"])]
        == (EXPECTED["txn-0"]["read_committed_offsets"])
    )
    assert all(one < other for one, other in pairwise(committed))
