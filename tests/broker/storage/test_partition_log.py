"""PartitionLog: append and roll (R27, R29)."""

from __future__ import annotations

import errno
import os

import pytest

from broker.storage.log_config import CleanupPolicy, LogConfig
from protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    OutOfOrderSequenceError,
    RecordListTooLargeError,
    StorageError,
)
from protocol.record_batch import check_batch
from tests.support.log_storage import (
    SMALL_SEGMENTS,
    LogStorage,
    batch,
    batches,
)

BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))
NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# --- append ---------------------------------------------------------------------------------------


def test_given_batches_when_appended_then_offsets_follow_and_the_bytes_are_stored_stamped():
    """R29"""
    storage = LogStorage()
    log = storage.log

    infos = [log.append(batches([b"a", b"b"], [b"c"])), log.append(batch(b"d"))]

    assert [(info.first_offset, info.last_offset) for info in infos] == [(0, 2), (3, 3)]
    assert log.log_end_offset == 4
    stored = storage.disk.read_file(log.active.path)
    header = check_batch(stored, len(stored) - len(batch(b"d")))
    assert (header.base_offset, header.leader_epoch) == (3, 0)


def test_given_an_expected_offset_when_it_is_not_the_end_then_nothing_is_appended():
    """R29"""
    storage = LogStorage()
    log = storage.log
    log.append(batch(b"a"), expected_offset=0)

    for expected_offset in (0, 2):
        with pytest.raises(OutOfOrderSequenceError, match="ends at offset 1"):
            log.append(batch(b"b"), expected_offset=expected_offset)

    assert log.log_end_offset == 1
    assert log.append(batch(b"c"), expected_offset=1).first_offset == 1


def test_given_one_bad_batch_of_three_when_appended_then_none_is_written():
    """R29: all batches of a set are validated before one is written."""
    storage = LogStorage()
    data = batches([b"a"], [b"b"], [b"c"])
    data[-1] ^= 0xFF
    untouched = bytes(data)

    with pytest.raises(CorruptMessageError):
        storage.log.append(data)

    assert (storage.log.log_end_offset, storage.log.size_bytes) == (0, 0)
    assert bytes(data) == untouched


def test_given_a_cut_tail_when_appended_then_the_whole_batches_are_kept_and_counted():
    """R28"""
    storage = LogStorage()
    data = memoryview(bytearray(bytes(batches([b"a"], [b"b"])) + bytes(batch(b"c"))[:-1]))

    info = storage.log.append(data)
    storage.flush()

    assert info.message_count == 2
    assert storage.records() == [(0, b"a"), (1, b"b")]
    assert storage.append(b"d") == 2


def test_given_a_set_larger_than_a_segment_when_appended_then_it_is_refused():
    """R29"""
    storage = LogStorage(LogConfig(segment_bytes=200))

    with pytest.raises(RecordListTooLargeError):
        storage.log.append(batches([b"a"], [b"b"], [b"c"]))


def test_given_a_compacted_topic_when_its_settings_change_then_appends_follow_them():
    storage = LogStorage()
    keyless = batch(b"v", key=None)
    storage.log.append(keyless)

    storage.log.update_config(LogConfig(cleanup_policy=CleanupPolicy.COMPACT))

    with pytest.raises(InvalidRecordError):
        storage.log.append(batch(b"v", key=None))


@pytest.mark.parametrize("accepted_bytes", [0, 1, 20, 68])
def test_given_a_full_disk_when_appending_then_error_56_and_the_log_goes_on_when_there_is_space(
    accepted_bytes,
):
    """A write that fails or is short is cut back to LEO: no garbage between batches."""
    storage = LogStorage()
    storage.append(b"before")
    size = storage.log.size_bytes
    if accepted_bytes:
        storage.disk.short_write(size=accepted_bytes)
    storage.disk.fail("write", NO_SPACE, after=1 if accepted_bytes else 0)

    with pytest.raises(StorageError) as caught:
        storage.append(b"lost")
    retried = storage.append(b"after")
    storage.flush()

    assert caught.value.code == 56
    assert retried == 1
    assert storage.disk.file_size(storage.log.active.path) == storage.log.size_bytes == 2 * size - 1
    assert storage.records() == [(0, b"before"), (1, b"after")]
    assert storage.crash() is storage.log
    assert storage.records() == [(0, b"before"), (1, b"after")]


def test_given_a_cut_back_that_fails_too_when_appending_again_then_it_is_made_up_for():
    storage = LogStorage()
    storage.append(b"before")
    storage.disk.short_write(size=30)
    storage.disk.fail("write", NO_SPACE, after=1)
    storage.disk.fail("truncate", BROKEN, path_suffix=".log")

    with pytest.raises(StorageError):
        storage.append(b"lost")
    storage.append(b"after")
    storage.flush()

    assert storage.disk.file_size(storage.log.active.path) == storage.log.size_bytes
    assert storage.records() == [(0, b"before"), (1, b"after")]


def test_given_a_closed_log_when_used_then_error_56():
    storage = LogStorage()
    log = storage.log
    storage.append(b"a")
    log.close()
    log.close()

    for use in (
        lambda: log.append(batch(b"b")),
        lambda: log.read(0, 100),
        log.roll,
        lambda: log.offset_for_timestamp(0),
        lambda: log.truncate_to(0),
        lambda: log.advance_log_start(0),
        lambda: log.segment_base_offsets_below(1, 1),
    ):
        with pytest.raises(StorageError):
            use()
    assert log.flush_task() is None
    assert log.delete_old_segments(0) == 0


# --- roll -----------------------------------------------------------------------------------------


def test_given_a_full_segment_when_appending_then_the_next_one_begins_at_the_log_end():
    """R27: the new base offset is LEO; R29: roll if due."""
    storage = LogStorage(SMALL_SEGMENTS)

    for _ in range(9):
        storage.append(b"x")

    bases = storage.log.segments.base_offsets
    assert len(bases) == 3
    assert all(segment.size_bytes <= 280 for segment in storage.log.segments)
    assert storage.log.active.base_offset == bases[-1]
    assert sum(segment.size_bytes for segment in storage.log.segments) == storage.log.size_bytes


def test_given_an_empty_segment_when_rolled_then_it_stays():
    """R27: rolling twice is rolling once (KAFKA-6388)."""
    storage = LogStorage()
    first = storage.log.active

    assert storage.log.roll() is first
    storage.append(b"a")
    second = storage.log.roll()
    assert storage.log.roll() is second
    assert storage.log.segments.base_offsets == (0, 1)


def test_given_a_disk_that_makes_no_file_when_rolling_then_the_old_segment_goes_on():
    storage = LogStorage()
    storage.append(b"a")
    storage.disk.fail("create", NO_SPACE, path_suffix=".log")

    with pytest.raises(StorageError):
        storage.log.roll()
    storage.append(b"b")
    storage.log.roll()
    storage.append(b"c")
    storage.flush()

    assert storage.log.segments.base_offsets == (0, 2)
    assert storage.records() == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_given_old_data_when_appending_later_then_a_new_segment_is_begun():
    """R26, R29: by the batch's timestamp."""
    storage = LogStorage(LogConfig(segment_ms=1_000))
    storage.append(b"a")
    storage.clock.advance(ms=1_000)
    storage.append(b"b")

    storage.clock.advance(ms=1)
    storage.append(b"c")

    assert storage.log.segments.base_offsets == (0, 2)
