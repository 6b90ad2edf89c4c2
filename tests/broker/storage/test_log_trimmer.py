"""LogTrimmer: old segments at the start (R38, R39), a tail at the end."""

from __future__ import annotations

import errno
import os
from random import Random

import msgspec
import pytest

from broker.storage.deletion import rename_steps
from broker.storage.log_config import CleanupPolicy, FlushPolicy
from broker.storage.log_reader import ReadLimit
from protocol.errors import OffsetOutOfRangeError, StorageError
from protocol.limits import INT64_MAX
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage, batch, records_of

BROKEN = OSError(errno.EIO, os.strerror(errno.EIO))
RETAINING = msgspec.structs.replace(SMALL_SEGMENTS, retention_ms=1_000)
FREE = msgspec.structs.replace(SMALL_SEGMENTS, flush_policy=FlushPolicy.OS)


def filled(config=SMALL_SEGMENTS, count: int = 9, *, flushed: bool = True) -> LogStorage:
    """Segments from 0, 4 and 8 on; the value of a record is its offset."""
    storage = LogStorage(config)
    for number in range(count):
        storage.append(b"%d" % number)
    if flushed:
        storage.flush()
    return storage


def expected(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(offset, b"%d" % offset) for offset in range(start, end)]


# --- the start ------------------------------------------------------------------------------------


def test_given_old_segments_when_retention_runs_then_they_leave_the_list_and_are_renamed():
    """R38, R39: first out of the list, then `.deleted`, unlinked after the delay."""
    storage = filled(RETAINING)
    storage.clock.advance(ms=900)
    storage.append(b"9")  # keeps the segment from 8 on
    storage.flush()
    storage.clock.advance(ms=101)

    count = storage.log.delete_old_segments(storage.clock.now_ms())

    assert count == 2
    assert storage.log.segments.base_offsets == (8,)
    assert storage.log.log_start_offset == 8
    assert not [name for name in storage.names() if name.endswith(".deleted")]
    storage.directory.checkpoint()  # the log start is durable: files may go
    assert "00000000000000000000.log.deleted" in storage.names()
    assert "00000000000000000004.index.deleted" in storage.names()
    assert storage.records() == expected(8, 10)
    assert storage.directory.unlink_task(storage.clock.monotonic()) is None

    storage.clock.advance(ms=60_000)
    task = storage.directory.unlink_task(storage.clock.monotonic())
    assert task is not None
    task.run()
    assert not [name for name in storage.names() if name.endswith(".deleted")]


def test_given_an_active_segment_that_is_due_when_retention_runs_then_it_is_rolled_and_goes():
    """R38"""
    storage = filled(RETAINING)
    storage.clock.advance(ms=1_001)

    storage.log.delete_old_segments(storage.clock.now_ms())

    assert storage.log.segments.base_offsets == (9,)
    assert (storage.log.log_start_offset, storage.log.log_end_offset) == (9, 9)
    assert storage.records() == []
    assert storage.append(b"9") == 9


def test_given_records_from_the_future_when_retention_runs_then_they_age_by_their_files_time():
    """R20, B21: such as a Kafka directory may hold; new ones are refused (INVALID_TIMESTAMP)."""
    config = msgspec.structs.replace(RETAINING, message_timestamp_after_max_ms=INT64_MAX)
    storage = LogStorage(config)
    for _ in range(9):
        storage.log.append(batch(b"x", timestamp=storage.clock.now_ms() * 1_000_000))
    storage.flush()
    storage.clock.advance(ms=900)
    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 0

    log = storage.restart()
    storage.clock.advance(ms=101)

    assert log.delete_old_segments(storage.clock.now_ms()) == 3
    assert log.log_start_offset == 9


@pytest.mark.parametrize(
    ("policy", "by_time"),
    [(CleanupPolicy.COMPACT, False), (CleanupPolicy.COMPACT_DELETE, True)],
)
def test_given_a_compacted_topic_when_retention_runs_then_the_log_start_applies_and_time_if_both(
    policy: CleanupPolicy, by_time: bool
):
    """R38"""
    storage = filled(msgspec.structs.replace(RETAINING, cleanup_policy=policy, retention_bytes=0))
    storage.clock.advance(ms=2_000)
    before = storage.log.segments.base_offsets
    storage.log.delete_old_segments(storage.clock.now_ms())
    after_time = storage.log.segments.base_offsets
    if not by_time:
        storage.log.advance_log_start(5)
        storage.log.delete_old_segments(storage.clock.now_ms())

    assert before == (0, 4, 8)
    assert after_time == ((9,) if by_time else before)
    assert storage.log.segments.base_offsets == ((9,) if by_time else (4, 8))


def test_given_segments_that_the_cleaner_works_on_when_retention_runs_then_they_go_all_the_same():
    """A throttled pass may take hours."""
    storage = filled(RETAINING)
    storage.clock.advance(ms=2_000)
    storage.log.cleaning.begin(tuple(storage.log.segments)[:2])

    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 3


def test_given_settings_that_change_when_retention_runs_then_it_goes_by_the_new_ones():
    storage = filled()
    storage.clock.advance(ms=2_000)
    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 0

    storage.log.update_config(msgspec.structs.replace(SMALL_SEGMENTS, retention_bytes=300))
    by_size = storage.log.delete_old_segments(storage.clock.now_ms())
    storage.log.update_config(RETAINING)
    by_time = storage.log.delete_old_segments(storage.clock.now_ms())

    assert (by_size, by_time) == (1, 2)


def test_given_an_unreadable_segment_below_the_log_start_when_retention_runs_then_it_goes():
    """Its timestamps do not matter, so nobody looks for them."""
    storage = filled(RETAINING)
    storage.restart()
    storage.log.advance_log_start(4)
    storage.disk.fail("read", BROKEN, path_suffix="0000.log", times=100)

    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 1


def test_given_unflushed_bytes_when_retention_runs_then_their_segment_stays():
    """R38: never a segment with unflushed bytes, under policy os either."""
    storage = filled(msgspec.structs.replace(FREE, retention_ms=1_000), flushed=False)
    storage.clock.advance(ms=2_000)

    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 0
    storage.flush()
    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 3


def test_given_a_reader_when_its_segment_was_unlinked_then_error_56_not_wrong_bytes():
    """R39: until the delay is over it reads on, after that it is told."""
    storage = filled(RETAINING)
    data = storage.log.read(0, 10_000)
    storage.clock.advance(ms=2_000)
    storage.log.delete_old_segments(storage.clock.now_ms())
    storage.directory.checkpoint()
    assert records_of(data) == expected(0, 9)

    storage.clock.advance(ms=60_000)
    task = storage.directory.unlink_task(storage.clock.monotonic())
    assert task is not None
    task.run()

    with pytest.raises(StorageError):
        records_of(data)


def test_given_a_crash_after_the_renames_when_started_then_the_leftovers_go():
    """R31, R39"""
    storage = filled(RETAINING)
    storage.clock.advance(ms=2_000)
    storage.log.delete_old_segments(storage.clock.now_ms())
    storage.directory.checkpoint()
    storage.append(b"9")
    storage.flush()

    log = storage.kill()

    assert log.segments.base_offsets == (9,)
    assert not [name for name in storage.names() if name.endswith(".deleted")]


def test_given_a_rename_that_fails_when_retention_runs_then_the_log_goes_on_without_the_segment():
    storage = filled(RETAINING)
    storage.disk.fail("rename", BROKEN, times=9)
    storage.clock.advance(ms=2_000)

    storage.log.delete_old_segments(storage.clock.now_ms())
    list(rename_steps(storage.directory.context, storage.directory.checkpoint_task()))

    assert storage.log.segments.base_offsets == (9,)
    assert storage.append(b"9") == 9


def test_given_a_checkpoint_of_before_when_it_has_run_then_no_file_is_renamed_by_it():
    """R39: only a log start that will outlive a crash makes up for the missing files."""
    storage = filled(RETAINING)
    before = storage.directory.checkpoint_task()
    before.run()
    storage.clock.advance(ms=2_000)

    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 3
    list(rename_steps(storage.directory.context, before))
    too_early = [name for name in storage.names() if name.endswith(".deleted")]
    storage.directory.checkpoint()

    assert too_early == []
    assert [name for name in storage.names() if name.endswith(".deleted")]


def test_given_a_crash_in_the_middle_of_the_renames_when_started_then_the_log_has_no_hole():
    """R39: whatever subset of them a power cut leaves."""
    for seed in range(20):
        storage = filled(RETAINING)
        storage.directory.durable_offsets.sync()
        storage.clock.advance(ms=2_000)
        storage.append(b"9")
        storage.flush()
        storage.log.delete_old_segments(storage.clock.now_ms())
        storage.directory.checkpoint()

        log = storage.crash(Random(seed))

        assert log.log_start_offset == 8
        assert storage.records() == expected(8, 10)


def test_given_a_damaged_time_when_retention_runs_then_the_file_time_is_taken():
    """R20, R38: a segment whose batches have no timestamp ages by its file."""
    storage = LogStorage(RETAINING)
    storage.log.append(batch(b"x", timestamp=-1))
    storage.flush()
    storage.clock.advance(ms=999)
    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 0

    storage.clock.advance(ms=2)

    assert storage.log.delete_old_segments(storage.clock.now_ms()) == 1


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(10))
@pytest.mark.parametrize("flushed", [True, False])
def test_given_a_log_when_cut_at_any_offset_then_what_is_below_stays_and_the_log_goes_on(
    offset, flushed
):
    storage = filled(flushed=flushed)

    assert storage.log.truncate_to(offset) == offset
    storage.check_invariants()
    assert storage.records(limit=ReadLimit.LOG_END) == expected(0, offset)
    assert storage.append(b"%d" % offset) == offset
    storage.flush()

    assert storage.records() == expected(0, offset + 1)
    storage.crash(Random(offset))
    assert storage.records() == expected(0, offset + 1)


def test_given_a_batch_of_several_records_when_cut_inside_then_the_whole_batch_goes():
    """R25: batches are not divided."""
    storage = LogStorage()
    storage.append(b"a", b"b")
    storage.append(b"c", b"d")
    storage.flush()

    assert storage.log.truncate_to(3) == 2
    assert (storage.log.log_end_offset, storage.log.high_watermark) == (2, 2)
    assert storage.records() == [(0, b"a"), (1, b"b")]


def test_given_an_offset_out_of_range_when_cut_then_an_error_or_nothing():
    """R25: above the last offset it does nothing."""
    storage = filled()
    storage.log.advance_log_start(3)

    assert storage.log.truncate_to(100) == 9
    with pytest.raises(OffsetOutOfRangeError):
        storage.log.truncate_to(2)
    assert storage.records() == expected(3, 9)


def test_given_a_cut_when_carried_out_then_the_durable_offset_is_lowered_durably_before_it():
    storage = filled()
    storage.disk.operations.clear()

    storage.log.truncate_to(2)

    names = [(each.name, each.path.name.rpartition("-")[2]) for each in storage.disk.changes()]
    lowered = names.index(("sync", "offsets"))
    first_loss = next(
        index
        for index, (name, path) in enumerate(names)
        if name in {"rename", "truncate"} and path != "offsets"
    )
    assert lowered < first_loss
    assert (storage.log.durable_offset, storage.log.recovery_point) == (2, 2)


def test_given_a_mapped_reader_when_cut_below_the_high_watermark_then_its_file_is_not_shortened():
    """A mapping of a file that was cut is SIGBUS: below HW the file is replaced."""
    storage = filled()
    path = storage.log.segments[0].path
    storage.disk.operations.clear()

    storage.log.truncate_to(2)

    assert not [
        each for each in storage.disk.changes() if each.name == "truncate" and each.path == path
    ]
    assert storage.disk.file_size(path) == 140


def test_given_a_flush_under_way_when_cut_then_it_covers_no_more_than_is_left():
    storage = filled(flushed=False)
    task = storage.log.flush_task()
    storage.log.truncate_to(5)
    storage.append(b"5")

    task.run()
    storage.log.flush_completed(task)

    assert (storage.log.durable_offset, storage.log.high_watermark) == (5, 5)
    assert storage.log.flush_due_at == 0
    storage.flush()
    assert storage.records() == expected(0, 6)


def test_given_a_sync_that_fails_when_cut_then_the_log_has_failed():
    storage = filled()
    storage.disk.fail("sync", BROKEN)

    with pytest.raises(StorageError):
        storage.log.truncate_to(2)

    with pytest.raises(StorageError, match="has failed"):
        storage.append(b"x")


@pytest.mark.parametrize("changes", range(40))
def test_given_a_crash_at_any_step_of_a_cut_when_started_then_the_state_before_or_after(changes):
    storage = filled()
    storage.disk.crash_after(changes)
    try:
        storage.log.truncate_to(2)
    except SimulatedCrash:
        pass

    storage.crash(Random(changes))

    found = storage.records()
    assert found == expected(0, len(found))
    assert len(found) >= 2
    end = storage.log.log_end_offset
    assert storage.append(b"next") == end


def test_given_changed_settings_when_cut_back_to_an_older_segment_then_it_follows_them():
    """Only the segment that is appended to is told of a change; there may be thousands."""
    storage = filled()
    storage.log.update_config(msgspec.structs.replace(SMALL_SEGMENTS, segment_bytes=1_000))

    storage.log.truncate_to(5)
    for number in range(5, 12):
        storage.append(b"%d" % number)

    assert storage.log.segments.base_offsets == (0, 4)


def test_given_a_cut_below_the_start_of_readers_when_they_ask_then_the_right_error_is_told():
    """On a deleted or a truncated range: out of range, with where the log begins and ends."""
    storage = filled()
    storage.log.advance_log_start(5)
    storage.log.truncate_to(7)

    for offset in (0, 4, 8, 100):
        with pytest.raises(OffsetOutOfRangeError) as raised:
            storage.log.read(offset, 1_000)
        assert raised.value.args == (offset, 5, 7)
    assert records_of(storage.log.read(5, 1_000))[-2:] == expected(5, 7)
    assert storage.log.read(7, 1_000).slices == ()
