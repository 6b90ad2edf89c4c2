"""PartitionLog: reads (R30), and what its offsets promise under each flush policy."""

from __future__ import annotations

import errno
import os

import msgspec
import pytest

from broker.storage.log_config import FlushPolicy, LogConfig
from broker.storage.log_reader import ReadLimit
from protocol.errors import (
    OffsetOutOfRangeError,
    StorageError,
)
from tests.support.log_storage import (
    PARTITION,
    SMALL_SEGMENTS,
    LogStorage,
    batch,
    records_of,
)

BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))

# --- read -----------------------------------------------------------------------------------------


def filled(config: LogConfig = SMALL_SEGMENTS, count: int = 9) -> LogStorage:
    storage = LogStorage(config)
    for number in range(count):
        storage.append(b"%d" % number)
    storage.flush()
    return storage


def test_given_a_log_when_read_from_any_offset_then_from_its_batch_over_segment_borders():
    """R30"""
    storage = filled()
    log = storage.log
    assert len(log.segments) == 3

    for offset in range(9):
        data = log.read(offset, 10_000)
        assert records_of(data) == [(each, b"%d" % each) for each in range(offset, 9)]
        assert data.offset_metadata.message_offset == offset
        assert data.size_bytes == sum(piece.size_bytes for piece in data.slices)


def test_given_the_log_end_when_read_then_empty_with_metadata():
    """R30"""
    log = filled().log

    for limit in ReadLimit:
        data = log.read(9, 100, limit=limit)
        assert (data.slices, data.size_bytes) == ((), 0)
        assert data.offset_metadata == log.end_metadata()


def test_given_an_offset_out_of_range_when_read_then_an_error_that_says_the_range():
    """R30"""
    log = filled().log
    log.advance_log_start(3)

    for offset in (-1, 2, 10):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            log.read(offset, 100)
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (3, 9)
    assert records_of(log.read(3, 10_000))[0] == (3, b"3")


def test_given_a_small_limit_when_read_then_the_first_batch_comes_whole_or_nothing_does():
    """R30, R22: `max_bytes` 0 is empty; `min_one` decides about a larger first batch."""
    log = filled().log
    one = len(batch(b"0"))

    assert records_of(log.read(4, 1)) == [(4, b"4")]
    assert log.read(4, one - 1, min_one=False).size_bytes == one - 1
    assert log.read(4, 0).slices == ()
    assert log.read(4, 0).offset_metadata.message_offset == 4
    assert log.read(0, 5 * one).size_bytes == 5 * one
    with pytest.raises(ValueError, match="max_bytes"):
        log.read(4, -1)


def test_given_uncommitted_records_when_read_then_the_limit_decides_what_is_shown():
    """R30: never beyond HW (or LSO)."""
    storage = LogStorage()
    storage.append(b"a")
    storage.flush()
    storage.append(b"b")
    log = storage.log

    assert (log.high_watermark, log.log_end_offset) == (1, 2)
    assert storage.records() == [(0, b"a")]
    assert storage.records(limit=ReadLimit.LAST_STABLE) == [(0, b"a")]
    assert storage.records(limit=ReadLimit.LOG_END) == [(0, b"a"), (1, b"b")]
    assert log.read(1, 100).offset_metadata == log.watermark.metadata()
    assert log.read(2, 100).slices == ()


def test_given_offsets_that_were_compacted_away_when_read_then_the_next_ones_and_at_last_empty():
    """R30: a legal offset without a record goes on in the next segments."""
    storage = filled()
    log = storage.log
    middle, last = log.segments[1], log.segments[2]
    log.segments = log.segments.without(middle)

    assert records_of(log.read(middle.base_offset, 10_000))[0] == (
        last.base_offset, b"%d" % last.base_offset,
    )  # fmt: skip
    log.segments = log.segments.without(last)
    log.active = middle  # an empty end: nothing is left at or above the offset
    data = log.read(middle.base_offset, 10_000)
    assert (data.slices, data.offset_metadata.message_offset) == ((), 9)


def test_given_a_reader_when_segments_roll_and_go_then_its_slices_stay_readable():
    """R39: a reader works on its own snapshot."""
    storage = filled()
    data = storage.log.read(0, 10_000)

    storage.log.advance_log_start(9)
    storage.log.delete_old_segments(storage.clock.now_ms())
    for _ in range(5):
        storage.append(b"later")

    assert storage.log.log_start_offset == 9
    assert [offset for offset, _ in records_of(data)] == list(range(9))


def test_given_a_disk_that_cannot_read_when_reading_then_error_56_and_others_go_on():
    storage = filled()
    storage.disk.fail("read", BROKEN)

    with pytest.raises(StorageError):
        storage.log.read(1, 100)

    assert records_of(storage.log.read(1, 1)) == [(1, b"1")]


def test_given_the_segments_when_asked_for_their_offsets_then_newest_first_and_the_log_start():
    storage = filled()
    log = storage.log
    bases = list(log.segments.base_offsets)

    assert log.segment_base_offsets_below(9, 10) == bases[::-1]
    assert log.segment_base_offsets_below(9, 2) == bases[::-1][:2]
    assert log.segment_base_offsets_below(bases[1], 10) == [0]
    log.advance_log_start(bases[1] + 1)
    assert log.segment_base_offsets_below(9, 10) == [bases[2], bases[1] + 1]


# --- what the policies promise --------------------------------------------------------------------


def test_given_policy_commit_when_appended_then_the_high_watermark_waits_for_the_sync():
    storage = LogStorage()
    storage.append(b"a")
    task = storage.log.flush_task()
    storage.append(b"b")

    assert (storage.log.high_watermark, storage.log.durable_offset) == (0, 0)
    task.run()
    assert storage.log.high_watermark == 0
    storage.log.flush_completed(task)

    assert (storage.log.high_watermark, storage.log.durable_offset) == (1, 1)
    assert storage.disk.is_durable(storage.path)
    storage.check_invariants()


@pytest.mark.parametrize("policy", [FlushPolicy.INTERVAL, FlushPolicy.OS])
def test_given_another_policy_when_appended_then_the_high_watermark_is_the_log_end(policy):
    storage = LogStorage(LogConfig(flush_policy=policy))

    storage.append(b"a", b"b")

    assert (storage.log.high_watermark, storage.log.durable_offset) == (2, 0)
    assert storage.records() == [(0, b"a"), (1, b"b")]
    storage.check_invariants()


def test_given_a_change_to_policy_os_when_taken_over_then_all_is_visible_at_once():
    storage = LogStorage()
    storage.append(b"a")

    storage.log.update_config(msgspec.structs.replace(storage.config, flush_policy=FlushPolicy.OS))

    assert storage.log.high_watermark == 1


def test_given_a_change_to_policy_commit_when_taken_over_then_the_high_watermark_never_goes_back():
    storage = LogStorage(LogConfig(flush_policy=FlushPolicy.OS))
    storage.append(b"a")

    storage.log.update_config(LogConfig())
    storage.append(b"b")

    assert storage.log.high_watermark == 1
    assert storage.log.flush_due_at == 0
    storage.flush()
    assert storage.log.high_watermark == 2


def test_given_a_new_log_when_made_then_it_is_named_after_its_partition_and_has_its_files():
    storage = LogStorage()

    assert storage.log.topic_partition == PARTITION
    assert storage.names() == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert storage.disk.read_file(storage.path / "leader-epoch-checkpoint") == b"0\n1\n0 0\n"
