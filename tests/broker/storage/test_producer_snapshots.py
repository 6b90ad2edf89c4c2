"""Producer snapshots are hints: one that is damaged, missing or foreign changes no answer."""

from __future__ import annotations

from random import Random

import pytest

from broker.storage.append_origin import AppendOrigin
from broker.storage.log_config import LogConfig
from protocol.checksum import crc32c
from protocol.errors import InvalidProducerEpochError
from protocol.identifiers import TopicPartition
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    parse_header,
)
from protocol.stored import producer_snapshot
from protocol.stored.producer_snapshot import ProducerEntry
from tests.support.log_storage import ROOT, TOPIC_ID, LogStorage
from tests.support.producers import (
    committed_offsets,
    end_transaction,
    known,
    marker_batch,
    producer_batch,
    send,
    send_in_transaction,
)

SMALL = LogConfig(segment_bytes=280, index_interval_bytes=100, segment_index_bytes=240)
OTHER = TopicPartition("other", 0)


def filled() -> LogStorage:
    """Several producers over some segments, one with a transaction open, all flushed."""
    storage = LogStorage(SMALL)
    for number in range(8):
        for producer_id in (7, 8, 9):
            send(storage.log, producer_id, number)
        send_in_transaction(storage.log, 11, number)
        if number == 5:
            end_transaction(storage.log, 11, commit=False)
    storage.flush()
    return storage


def snapshot_paths(storage: LogStorage):
    return [storage.path / name for name in storage.names() if name.endswith(".snapshot")]


def put(storage: LogStorage, path, data: bytes) -> None:
    file = storage.disk.open(path, create=True)
    file.truncate(0)
    file.write([data], 0)
    file.close()


def check_the_same(storage: LogStorage, before) -> None:
    storage.restarted()
    assert (known(storage.log), committed_offsets(storage.log)) == before
    for producer_id in (7, 8, 9):
        for number in range(3, 8):
            info = send(storage.log, producer_id, number)
            assert info.is_duplicate
            assert info.first_offset == number * 4 + producer_id - 7 + (number > 5)


def stopped(way: str):
    """A filled log that has come to an end, and what it knew."""
    storage = filled()
    before = known(storage.log), committed_offsets(storage.log)
    if way == "clean":
        storage.directory.close()
    else:
        getattr(storage.disk, way)()
    return storage, before


WAYS = pytest.mark.parametrize("way", ["clean", "kill", "crash"])


@WAYS
def test_given_snapshots_when_started_then_five_batches_are_known_as_before(way):
    """Kafka's file has one batch of each producer: ours has the others behind its entries."""
    storage, before = stopped(way)

    check_the_same(storage, before)


@WAYS
@pytest.mark.parametrize("count", [1, 2, 100])
def test_given_missing_snapshots_when_started_then_the_log_tells_the_same(way, count):
    storage, before = stopped(way)
    for path in snapshot_paths(storage)[-count:]:
        storage.disk.unlink(path)

    check_the_same(storage, before)


@WAYS
@pytest.mark.parametrize("seed", range(12))
def test_given_damaged_snapshots_when_started_then_the_log_tells_the_same(way, seed):
    random = Random(seed)
    storage, before = stopped(way)
    for path in snapshot_paths(storage):
        data = bytearray(storage.disk.read_file(path))
        wound = random.choice(["flip", "cut", "empty", "zeros", "none"])
        if wound == "flip" and data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        elif wound == "cut":
            del data[random.randrange(len(data) + 1) :]
        elif wound == "empty":
            data.clear()
        elif wound == "zeros":
            data = bytearray(len(data))
        put(storage, path, bytes(data))

    check_the_same(storage, before)


@WAYS
def test_given_a_snapshot_above_the_log_end_when_started_then_it_is_removed_durably(way):
    storage, before = stopped(way)
    path = storage.path / f"{100:020d}.snapshot"
    put(storage, path, producer_snapshot.encode([ProducerEntry(7, 0, 99, 99)]))
    storage.disk.sync_directory(storage.path)

    check_the_same(storage, before)

    storage.crash()
    assert not storage.disk.exists(path)


@WAYS
@pytest.mark.parametrize(
    "entry",
    [
        ProducerEntry(7, 0, 7, 30, 0, -1),  # another producer's offset
        ProducerEntry(7, 1, 7, 29, 0, -1),  # another epoch
        ProducerEntry(7, 0, 8, 29, 0, -1),  # another sequence
        ProducerEntry(99, 0, 5, 20, 0, -1),
        ProducerEntry(7, 0, 7, 500, 0, -1),  # above its own offset
        ProducerEntry(7, 0, -1, -1, 0, -1, 0, 700),
    ],
)
def test_given_another_logs_snapshot_when_started_then_it_is_not_believed(way, entry):
    """Its checksum is right; the log has no such batches."""
    storage, before = stopped(way)
    for path in snapshot_paths(storage)[-2:]:
        put(storage, path, producer_snapshot.encode([entry]))

    check_the_same(storage, before)


def test_given_a_copied_snapshot_of_a_second_log_when_started_then_it_is_not_believed():
    storage = filled()
    before = known(storage.log), committed_offsets(storage.log)
    other = storage.directory.create_log(OTHER, TOPIC_ID, SMALL)
    for number in range(33):
        other.append(producer_batch(70 + number % 3, number // 3))
    other.flush()
    storage.directory.close()
    for path in snapshot_paths(storage):
        twin = ROOT / str(OTHER) / path.name
        if storage.disk.exists(twin):
            put(storage, path, storage.disk.read_file(twin))
    newest = snapshot_paths(storage)[-1]
    put(storage, newest, storage.disk.read_file(ROOT / str(OTHER) / f"{33:020d}.snapshot"))

    check_the_same(storage, before)


def test_given_unknown_snapshot_names_when_started_then_they_are_left_alone():
    storage, before = stopped("clean")
    names = ["00000000000000000005.snapshot.bak", "x.snapshot", "5.snapshot"]
    for name in names:
        put(storage, storage.path / name, b"\0\1")

    check_the_same(storage, before)

    assert set(names) <= set(storage.names())


def test_given_a_clean_stop_when_started_again_then_one_snapshot_for_each_segment_and_the_end():
    """As Kafka keeps them: one at each segment's base offset, and the newest."""
    storage, _ = stopped("clean")
    storage.restarted()
    bases = [each.base_offset for each in storage.log.segments][1:]
    assert storage.log.snapshots.offsets == [*bases, 33]

    send(storage.log, 7, 8)
    storage.flush()
    storage.restart()
    bases = [each.base_offset for each in storage.log.segments][1:]

    assert storage.log.snapshots.offsets == [*bases, 34]
    names = {path.name for path in snapshot_paths(storage)}
    assert names == {f"{offset:020d}.snapshot" for offset in [*bases, 34]}


def test_given_nothing_appended_when_stopped_then_no_snapshot_is_written():
    storage, _ = stopped("clean")
    storage.restarted()
    writes = len(storage.disk.operations)

    storage.restart()

    written = [
        each for each in storage.disk.operations[writes:]
        if each.name == "write" and each.path.name.endswith(".snapshot")
    ]  # fmt: skip
    assert written == []


def test_given_a_disk_that_refuses_snapshots_when_rolled_then_appends_go_on():
    storage = LogStorage(SMALL)
    storage.disk.fail(
        "write", OSError(28, "No space left on device"), times=100, path_suffix=".snapshot"
    )
    for number in range(12):
        send(storage.log, 7, number)
    storage.flush()

    storage.kill()

    assert send(storage.log, 7, 11).is_duplicate


@pytest.mark.parametrize("end", [30, 17, 6, 2, 1, 0])
def test_given_a_cut_when_appended_again_then_no_old_snapshot_tells_of_what_was_cut(end):
    """The stale snapshot would be at or below the new log end, with a right checksum."""
    storage = filled()
    storage.log.truncate_to(end)
    end = storage.log.log_end_offset
    assert all(offset <= end for offset in storage.log.snapshots.offsets)
    for number in range(40):
        send(storage.log, 70, number)
    storage.flush()
    expected = known(storage.log)

    storage.crash()

    assert known(storage.log) == expected
    assert storage.log.producers.producers[70].next_sequence == 40


def emptied(batch: memoryview) -> memoryview:
    """The same batch without its records."""
    length = HEADER_BYTES - LOG_OVERHEAD_BYTES
    header = parse_header(batch)._replace(batch_length=length, record_count=0)
    data = bytearray(HEADER.pack(*header))
    CRC.pack_into(data, CRC_POSITION, crc32c(data[ATTRIBUTES_POSITION:]))
    return memoryview(data)


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_given_a_marker_that_the_cleaner_has_emptied_when_started_then_its_epoch_still_fences(
    has_snapshots,
):
    """What it was left for. (Kafka passes over it, and knows the epoch from a snapshot only.)"""
    storage = LogStorage()
    storage.log.append(
        emptied(marker_batch(7, commit=True, epoch=3)), origin=AppendOrigin.REPLICATION
    )
    storage.flush()
    storage.directory.close()
    for name in storage.names() if not has_snapshots else ():
        if name.endswith(".snapshot"):
            storage.disk.unlink(storage.path / name)

    log = storage.restarted()

    with pytest.raises(InvalidProducerEpochError):
        send(log, 7, 0, epoch=2)
    assert not send(log, 7, 0, epoch=4).is_duplicate
