"""Offsets of a log: the high watermark (R35, R36), look-ups by time (R33)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log_config import FlushPolicy, LogConfig
from broker.storage.offset_metadata import LogOffsetMetadata
from protocol.compression import Codec
from protocol.errors import OffsetOutOfRangeError, StorageError
from tests.support.log_storage import NOW_MS, SMALL_SEGMENTS, LogStorage, batch


def filled(count: int = 9) -> LogStorage:
    storage = LogStorage(SMALL_SEGMENTS)
    for _ in range(count):
        storage.append(b"x")
    return storage


# --- high watermark -------------------------------------------------------------------------------


def test_given_a_new_log_when_made_then_the_high_watermark_is_the_log_start():
    """R35"""
    log = LogStorage().log

    assert log.high_watermark == log.log_start_offset == 0
    assert log.watermark.metadata() == LogOffsetMetadata(0, 0, 0)


def test_given_a_negative_offset_when_set_then_an_error():
    """R35: setting below 0 raises."""
    watermark = filled().log.watermark

    for change in (
        lambda: watermark.move_to(-1),
        lambda: watermark.update(-1),
        lambda: watermark.maybe_increment(LogOffsetMetadata(-1), cluster_backup=True),
    ):
        with pytest.raises(ValueError, match="cannot be -1"):
            change()


def test_given_any_offset_when_updated_then_it_is_clamped_to_log_start_and_log_end():
    """R35"""
    storage = filled()
    storage.flush()
    log = storage.log
    log.advance_log_start(3)

    assert log.watermark.update(5) == log.high_watermark == 5
    assert log.watermark.update(1) == log.high_watermark == 3
    assert log.watermark.update(100) == log.high_watermark == 9


def test_given_a_follower_when_incremented_then_forward_only_and_the_old_place_comes_back():
    """R35"""
    log = filled().log
    watermark = log.watermark

    assert watermark.maybe_increment(LogOffsetMetadata(4)) == LogOffsetMetadata(0, 0, 0)
    assert watermark.maybe_increment(LogOffsetMetadata(4)) is None
    assert watermark.maybe_increment(LogOffsetMetadata(2)) is None
    assert log.high_watermark == 4
    with pytest.raises(ValueError, match="above the log end"):
        watermark.maybe_increment(LogOffsetMetadata(10))


def test_given_an_equal_offset_when_incremented_then_only_onto_a_newer_segment():
    """R35"""
    storage = filled(4)
    storage.flush()
    log = storage.log
    before = log.watermark.metadata()
    log.roll()

    assert log.watermark.maybe_increment(LogOffsetMetadata(4, 0, 280)) is None
    assert log.watermark.maybe_increment(LogOffsetMetadata(4, 4, 0)) == before
    assert log.watermark.metadata() == LogOffsetMetadata(4, 4, 0)


def test_given_a_backup_when_set_back_then_the_high_watermark_goes_back_but_not_below_the_start():
    """R35: the one way back."""
    storage = filled()
    storage.flush()
    log = storage.log
    log.advance_log_start(2)

    old = log.watermark.maybe_increment(LogOffsetMetadata(5), cluster_backup=True)

    assert old is not None
    assert (old.message_offset, log.high_watermark) == (9, 5)
    with pytest.raises(ValueError, match="cannot be 1"):
        log.watermark.maybe_increment(LogOffsetMetadata(1), cluster_backup=True)


def test_given_only_an_offset_when_its_place_is_asked_for_then_the_log_is_read_unless_closed():
    """R35: metadata is filled in on demand."""
    storage = filled()
    log = storage.log
    log.watermark.update(6)

    assert log.watermark.metadata() == LogOffsetMetadata(6, 4, 140)
    log.close()
    log.watermark.update(5)
    with pytest.raises(StorageError):
        log.watermark.metadata()


def test_given_a_move_of_the_high_watermark_when_seen_then_the_last_stable_offset_has_followed():
    """R36: every move recomputes LSO, which is HW as long as there are no transactions."""
    storage = filled()
    log = storage.log
    seen: list[tuple[int, int]] = []

    class Listener:
        def unflushed(self, log):
            pass

        def high_watermark_moved(self, log):
            seen.append((log.high_watermark, log.last_stable_offset))

        def log_failed(self, log, error):
            pass

    log.listener = Listener()
    log.watermark.update(4)
    storage.flush()

    assert seen == [(4, 4), (9, 9)]


def test_given_a_log_start_when_advanced_then_up_to_the_high_watermark_and_never_back():
    storage = filled()
    log = storage.log
    log.watermark.update(5)

    with pytest.raises(OffsetOutOfRangeError):
        log.advance_log_start(6)
    assert log.advance_log_start(5)
    assert not log.advance_log_start(5)
    assert not log.advance_log_start(2)
    assert log.log_start_offset == 5


def test_given_a_log_start_above_the_durable_offset_when_advanced_then_it_lifts_that():
    storage = LogStorage(LogConfig(flush_policy=FlushPolicy.OS))
    storage.append(b"a", b"b", b"c")

    storage.log.advance_log_start(2)

    assert (storage.log.durable_offset, storage.log.recovery_point) == (2, 2)
    storage.check_invariants()


# --- by time --------------------------------------------------------------------------------------


@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=12),
    target=st.integers(-1, 52),
    codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
)
def test_given_any_timestamps_when_an_offset_is_looked_up_then_it_is_what_a_full_scan_finds(
    times, target, codec
):
    """R33: the first record, in log order, whose timestamp is at or above the target."""
    storage = LogStorage(SMALL_SEGMENTS)
    for time in times:
        storage.log.append(batch(b"v", timestamp=NOW_MS + time, codec=codec))
    storage.flush()

    found = storage.log.offset_for_timestamp(NOW_MS + target)

    late = [(NOW_MS + time, offset) for offset, time in enumerate(times) if time >= target]
    assert found == (late[0] if late else None)


def test_given_records_above_the_high_watermark_when_looked_up_by_time_then_they_are_not_found():
    """R33: up to the high watermark, and from the log start on."""
    storage = LogStorage()
    storage.log.append(batch(b"a", timestamp=NOW_MS))
    storage.log.append(batch(b"b", timestamp=NOW_MS + 1))
    storage.flush()
    storage.log.append(batch(b"c", timestamp=NOW_MS + 2))

    assert storage.log.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 1, 1)
    assert storage.log.offset_for_timestamp(NOW_MS + 2) is None
    storage.log.advance_log_start(1)
    assert storage.log.offset_for_timestamp(0) == (NOW_MS + 1, 1)


def test_given_records_without_timestamps_when_looked_up_by_time_then_none_is_found():
    """R33, R20"""
    storage = LogStorage()
    storage.log.append(batch(b"a", timestamp=-1))
    storage.flush()

    assert storage.log.offset_for_timestamp(0) is None
