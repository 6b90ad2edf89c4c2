"""Transactions in the engine: the last stable offset, markers, aborted ranges (R30, R35, R36)."""

from __future__ import annotations

import pytest

from broker.storage.append_origin import AppendOrigin
from broker.storage.log_config import FlushPolicy, LogConfig
from broker.storage.log_reader import ReadLimit
from protocol.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTransactionStateError,
    StorageError,
    TransactionCoordinatorFencedError,
)
from protocol.record_batch import iterate_batches
from protocol.record_batch_builder import build_batch
from tests.support.log_storage import LogStorage
from tests.support.producers import (
    committed_offsets,
    end_transaction,
    joined,
    known,
    marker_batch,
    producer_batch,
    send,
    send_in_transaction,
)

OS = LogConfig(flush_policy=FlushPolicy.OS)
SMALL = LogConfig(
    flush_policy=FlushPolicy.OS, segment_bytes=280, index_interval_bytes=100,
    segment_index_bytes=240,
)  # fmt: skip
NO_SPACE = OSError(28, "No space left on device")


def stable(storage: LogStorage) -> int:
    storage.check_invariants()
    return storage.log.last_stable_offset


def test_given_a_transaction_at_the_end_when_read_then_the_limit_is_held():
    """R30: a read never passes the last stable offset, if that is its limit."""
    storage = LogStorage(OS)
    storage.append(b"1")
    send_in_transaction(storage.log, 7, 0)
    storage.append(b"2")

    assert storage.records(limit=ReadLimit.LAST_STABLE) == [(0, b"1")]
    assert len(storage.records(limit=ReadLimit.HIGH_WATERMARK)) == 3
    at_limit = storage.log.read(1, 1000, limit=ReadLimit.LAST_STABLE)
    assert (at_limit.slices, at_limit[0].message_offset) == ((), 1)
    beyond = storage.log.read(2, 1000, limit=ReadLimit.LAST_STABLE)
    assert beyond.slices == ()


def test_given_a_marker_without_a_transaction_when_appended_then_it_decides_nothing():
    storage = LogStorage(OS)

    info = end_transaction(storage.log, 7, commit=False, epoch=3)

    assert info.first_offset == 0
    assert stable(storage) == 1
    assert storage.log.aborted_transactions(0, 1) == []
    with pytest.raises(InvalidProducerEpochError):
        send(storage.log, 7, 0, epoch=2)
    send(storage.log, 7, 0, epoch=3)


def test_given_a_marker_of_a_newer_epoch_when_appended_then_sequences_begin_anew():
    """KIP-890: the epoch grows with each transaction."""
    storage = LogStorage(OS)
    send_in_transaction(storage.log, 7, 0, count=3)

    end_transaction(storage.log, 7, commit=True, epoch=1)

    send_in_transaction(storage.log, 7, 0, epoch=1)
    assert stable(storage) == 4


def test_given_markers_of_older_epochs_when_appended_then_they_are_fenced():
    storage = LogStorage(OS)
    send_in_transaction(storage.log, 7, 0, epoch=2)
    end_transaction(storage.log, 7, commit=True, epoch=2, coordinator_epoch=5)
    end = storage.log.log_end_offset

    with pytest.raises(InvalidProducerEpochError):
        end_transaction(storage.log, 7, commit=True, epoch=1, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFencedError) as caught:
        end_transaction(storage.log, 7, commit=True, epoch=2, coordinator_epoch=4)

    assert caught.value.code == 52
    assert storage.log.log_end_offset == end


def test_given_an_open_transaction_when_its_producer_writes_outside_then_it_is_refused():
    storage = LogStorage(OS)
    send_in_transaction(storage.log, 7, 0)

    with pytest.raises(InvalidTransactionStateError) as caught:
        send(storage.log, 7, 1)

    assert caught.value.code == 48
    assert storage.log.appender.append_plain(producer_batch(7, 1)) == 0


# --- who may send what ----------------------------------------------------------------------------


@pytest.mark.parametrize("data", [marker_batch(7, commit=True)])
def test_given_a_control_batch_when_a_client_sends_it_then_it_is_refused(data):
    storage = LogStorage(OS)

    for is_verified in (False, True):
        with pytest.raises(InvalidRecordError):
            storage.log.append(joined(data), is_verified=is_verified)

    assert storage.log.log_end_offset == 0


def test_given_a_transactional_batch_when_not_verified_then_a_client_may_not_send_it():
    storage = LogStorage(OS)
    data = producer_batch(7, 0, transactional=True)

    with pytest.raises(InvalidRecordError):
        storage.log.append(joined(data))
    assert storage.log.appender.append_plain(joined(data)) == 0

    assert storage.log.append(joined(data), is_verified=True).first_offset == 0


def test_given_a_coordinator_when_it_writes_then_sequences_are_not_asked_for():
    """Offset commits in a transaction have a producer, and no sequences."""
    storage = LogStorage(OS)
    for _ in range(2):
        storage.log.append(
            producer_batch(7, -1, transactional=True), origin=AppendOrigin.COORDINATOR
        )

    end_transaction(storage.log, 7, commit=True)

    assert storage.log.producers.producers[7].last_sequence == -1
    assert stable(storage) == 3


def test_given_a_control_batch_that_is_no_marker_when_a_coordinator_sends_it_then_it_is_refused():
    storage = LogStorage(OS)
    data = build_batch(
        [(0, 0, b"\0\0\0\x05", b"")], producer_id=7, producer_epoch=0, is_control=True
    )

    with pytest.raises(InvalidRecordError):
        storage.log.append(memoryview(bytearray(data)), origin=AppendOrigin.COORDINATOR)


# --- aborted transactions -------------------------------------------------------------------------


def interleaved(storage: LogStorage) -> None:
    """Three producers, over many small segments: 7 aborts, 8 commits, 9 writes alone."""
    sequences = {7: 0, 8: 0, 9: 0}
    for number in range(24):
        for producer_id in (7, 8):
            send_in_transaction(storage.log, producer_id, sequences[producer_id])
            sequences[producer_id] += 1
        send(storage.log, 9, sequences[9])
        sequences[9] += 1
        if number % 3 == 2:
            end_transaction(storage.log, 7, commit=False)
        if number % 4 == 3:
            end_transaction(storage.log, 8, commit=True)


def expected_committed(storage: LogStorage) -> list[int]:
    """By the log itself: all records but those of producer 7, and markers."""
    return [
        offset
        for offset, value in storage.records()
        if offset < storage.log.last_stable_offset and value.count(b":") == 2
        and not value.startswith(b"7:")
    ]  # fmt: skip


@pytest.mark.parametrize("max_bytes", [100, 500, 1 << 20])
def test_given_aborted_transactions_over_segments_when_read_then_they_are_left_out(max_bytes):
    storage = LogStorage(SMALL)

    interleaved(storage)

    assert len(storage.log.segments) > 10
    found = committed_offsets(storage.log, max_bytes)
    assert found == expected_committed(storage)
    assert len(found) > 40


@pytest.mark.parametrize("way", ["restart", "kill", "crash"])
def test_given_any_end_when_started_again_then_the_same_is_known(way):
    """R23: recovery rebuilds producer state and transaction indexes."""
    storage = LogStorage(SMALL)
    interleaved(storage)
    send_in_transaction(storage.log, 7, 24)
    storage.flush()
    before = known(storage.log), committed_offsets(storage.log), stable(storage)

    getattr(storage, way)()

    assert (known(storage.log), committed_offsets(storage.log), stable(storage)) == before
    end_transaction(storage.log, 7, commit=False)
    assert committed_offsets(storage.log) == before[1]


@pytest.mark.parametrize("wound", ["flip", "cut", "garbage", "gone"])
def test_given_a_damaged_transaction_index_when_read_then_it_is_built_anew(wound):
    """No checksum covers it: it is held against the batches before it is believed."""
    storage = LogStorage(SMALL)
    interleaved(storage)
    expected = committed_offsets(storage.log)
    storage.flush()
    storage.directory.close()
    paths = [
        storage.path / name
        for name in storage.disk.list_directory(storage.path)
        if name.endswith(".txnindex")
    ]
    assert len(paths) == 8
    for number, path in enumerate(paths):
        data = bytearray(storage.disk.read_file(path))
        if wound == "flip":
            data[2 + number * 3] ^= 1 << (number % 8)
        elif wound == "cut":
            del data[-1:]
        elif wound == "garbage":
            data += b"\x5a" * 34
        else:
            del data[:34]
        file = storage.disk.open(path)
        file.truncate(0)
        file.write([bytes(data)], 0)
        file.close()

    storage.restarted()

    assert committed_offsets(storage.log) == expected


def test_given_a_truncation_when_read_then_transactions_are_as_they_were_before():
    storage = LogStorage(SMALL)
    interleaved(storage)
    storage.flush()

    ends = [each.base_offset + 1 for each in reversed(storage.log.segments)]
    for end in [*ends, 1]:
        storage.log.truncate_to(end)
        reference = LogStorage(SMALL)
        copy_log(storage, reference)
        assert known(storage.log) == known(reference.log)
        assert stable(storage) == stable(reference)
        assert committed_offsets(storage.log) == committed_offsets(reference.log)


def copy_log(source: LogStorage, target: LogStorage) -> None:
    """Append all that one log holds to another, as a follower does."""
    log = source.log
    offset = log.log_start_offset
    while True:
        data = log.read(offset, 1 << 20, limit=ReadLimit.LOG_END)
        if not data.slices:
            return
        for piece in data.slices:
            stored = memoryview(bytearray(piece.read()))
            for position, header in iterate_batches(stored):
                target.log.append(
                    stored[position : position + header.size_bytes],
                    origin=AppendOrigin.REPLICATION,
                )
                offset = header.next_offset


def test_given_a_disk_that_refuses_when_an_abort_is_written_then_it_may_be_tried_again():
    """The index entry comes first: a marker is written only if its entry is."""
    storage = LogStorage(OS)
    send_in_transaction(storage.log, 7, 0)
    before = known(storage.log)

    for suffix in (".txnindex", ".log"):
        storage.disk.fail("write", NO_SPACE, path_suffix=suffix)
        with pytest.raises(StorageError):
            end_transaction(storage.log, 7, commit=False)
        assert (known(storage.log), stable(storage)) == (before, 0)
        assert storage.log.active.transaction_index.size_bytes == 0
    end_transaction(storage.log, 7, commit=False)

    assert list(storage.log.active.transaction_index.entries()) == [(7, 0, 1, 2)]
    storage.flush()
    storage.restart()
    assert storage.log.aborted_transactions(0, 2) == [(7, 0)]


def test_given_retention_when_segments_go_then_their_indexes_and_snapshots_go_too():
    storage = LogStorage(SMALL)
    interleaved(storage)
    storage.flush()
    middle = list(storage.log.segments)[len(storage.log.segments) // 2].base_offset

    storage.log.advance_log_start(middle)
    storage.log.delete_old_segments(storage.clock.now_ms())
    storage.restart()

    storage.clock.advance(ms=100_000)
    assert min(storage.log.snapshots.offsets) >= middle
    assert committed_offsets(storage.log) == expected_committed(storage)
    for name in storage.names():
        if name.endswith((".txnindex", ".snapshot")):
            assert int(name[:20]) >= middle
