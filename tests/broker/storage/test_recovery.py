"""Recovery: what a start makes of a directory that a crash has left (R23, R31, R32)."""

from __future__ import annotations

import errno
import os
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log_reader import ReadLimit
from protocol.stored.file_names import log_file_name
from tests.support.crashed_logs import ONE, expected, filled, write
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import LogStorage, batch

# --- clean and unclean ----------------------------------------------------------------------------


def test_given_a_clean_stop_when_started_then_nothing_is_walked_and_all_is_there():
    """R31: nothing proportional to flushed data is read."""
    storage = filled()
    storage.directory.close()
    storage.disk.operations.clear()

    log = storage.restarted()

    assert storage.directory.summary.is_clean
    assert storage.directory.summary.checked_bytes == 0
    read = {each.path.name for each in storage.disk.operations if each.name == "read"}
    assert log_file_name(0) not in read
    assert (log.log_end_offset, log.high_watermark, log.durable_offset) == (9, 9, 9)
    assert storage.records() == expected(0, 9)
    assert storage.append(b"9") == 9


def test_given_a_kill_when_started_then_nothing_written_is_lost_and_hw_is_the_log_end():
    """A checkpointed high watermark alone would go backwards for readers."""
    storage = filled()
    storage.append(b"9")

    log = storage.kill()

    assert not storage.directory.summary.is_clean
    assert (log.high_watermark, log.durable_offset, log.log_end_offset) == (10, 10, 10)
    assert storage.disk.is_durable(log.active.path)
    assert storage.records() == expected(0, 10)


@given(seed=st.integers(0, 2**32), flushed=st.integers(0, 9), more=st.integers(0, 9))
def test_given_a_power_cut_when_started_then_all_flushed_is_there_and_the_rest_is_a_prefix(
    seed, flushed, more
):
    """R23, R32"""
    storage = filled(flushed)
    for number in range(flushed, flushed + more):
        storage.append(b"%d" % number)

    storage.crash(Random(seed))

    found = storage.records()
    assert found == expected(0, len(found))
    assert flushed <= len(found) <= flushed + more
    storage.check_invariants()
    assert storage.append(b"next") == len(found)


def test_given_a_recovery_point_when_started_then_segments_below_it_are_not_read():
    """R31, pass 6: from the recovery point on."""
    storage = filled()
    storage.directory.checkpoint()
    storage.append(b"9")
    storage.disk.kill()
    storage.disk.operations.clear()

    storage.restarted()

    dropped = [each.path.name for each in storage.disk.operations if each.name[:4] == "drop"]
    assert dropped == [log_file_name(8)]
    assert storage.directory.summary.checked_bytes == 2 * ONE


def test_given_a_lower_durable_offset_when_started_then_it_bounds_the_recovery_point():
    """A cut lowers the slot first; a checkpoint that says more is older."""
    storage = filled()
    storage.directory.checkpoint()
    storage.log.truncate_to(2)
    storage.append(b"2")
    storage.disk.kill()

    log = storage.restarted()

    assert storage.directory.summary.checked_bytes == 3 * ONE
    assert log.log_end_offset == 3


def test_given_lost_page_cache_errors_when_started_then_the_device_is_believed():
    """Cached pages are dropped before the first read: a failed sync has left lies in them."""
    storage = filled(4)
    storage.append(b"4")
    storage.disk.fail("sync", OSError(errno.EIO, os.strerror(errno.EIO)))
    with pytest.raises(OSError, match="Input"):
        storage.log.flush()
    assert len(storage.records(limit=ReadLimit.LOG_END)) == 5  # the cache still shows it

    storage.kill()

    assert storage.records() == expected(0, 4)


def test_given_a_lowered_message_limit_when_recovering_then_larger_batches_stay():
    """R23: bounded by the format and the file, never by today's settings."""
    storage = LogStorage()
    storage.append(b"x" * 5_000)
    storage.flush()

    storage.config = msgspec.structs.replace(
        storage.config, max_message_bytes=100, segment_bytes=200
    )
    storage.kill()

    assert storage.records() == [(0, b"x" * 5_000)]


# --- torn tail ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage", [b"\x00" * 100, b"\xff" * 100, bytes(batch(b"x"))[:-1], b"\x00" * 5]
)
def test_given_bad_bytes_at_the_durable_offset_when_started_then_they_are_cut(garbage):
    """R23: and the bytes cut are counted."""
    storage = filled()
    write(storage, log_file_name(8), garbage, ONE)

    log = storage.kill()

    assert storage.directory.summary.cut_bytes == len(garbage)
    assert storage.disk.file_size(log.active.path) == ONE
    assert storage.records() == expected(0, 9)
    assert not log.damage


def test_given_a_torn_segment_when_others_follow_then_they_are_no_part_of_the_log():
    """R32: nothing at or above the durable offset was acknowledged."""
    storage = filled(3)
    for number in range(3, 9):
        storage.append(b"%d" % number)
    write(storage, log_file_name(0), b"\0" * 10, 3 * ONE + 20)

    log = storage.kill()

    assert storage.records() == expected(0, 3)
    assert log.segments.base_offsets == (0,)
    assert log_file_name(4) not in storage.names()
    assert storage.append(b"3") == 3


def test_given_a_segment_that_ends_early_when_others_follow_then_they_are_cut_too():
    """R32: a lost tail may end at a batch's border; what follows the gap was never promised."""
    storage = filled(3)
    for number in range(3, 9):
        storage.append(b"%d" % number)
    file = storage.disk.open(storage.path / log_file_name(0))
    file.truncate(3 * ONE)

    storage.kill()

    assert storage.records() == expected(0, 3)


@pytest.mark.parametrize("changes", range(30))
def test_given_a_crash_inside_recovery_when_started_again_then_the_same_comes_out(changes):
    """R31: each pass is idempotent."""
    storage = filled(3)
    for number in range(3, 9):
        storage.append(b"%d" % number)
    write(storage, log_file_name(0), b"\0" * 10, 3 * ONE + 20)
    storage.disk.kill()
    storage.disk.crash_after(changes)
    try:
        storage.open()
    except SimulatedCrash:
        pass

    storage.crash(Random(changes))

    assert storage.records() == expected(0, 3)


def test_given_a_first_segment_that_was_never_durable_when_it_is_lost_then_the_others_go_too():
    """R32: what follows it begins in the middle."""
    storage = filled(flushed=False)
    for suffix in ("log", "index", "timeindex"):
        storage.disk.unlink(storage.path / f"{0:020d}.{suffix}")

    log = storage.kill()

    assert log.segments.base_offsets == (0,)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert storage.append(b"0") == 0
