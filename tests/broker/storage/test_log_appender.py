"""LogAppender: runs of plain sets are appended as if each had come by itself (R26 to R29)."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log_config import FlushPolicy, LogConfig
from protocol.errors import StorageError
from tests.support.log_storage import NOW_MS, SMALL_SEGMENTS, LogStorage, batch

OS = LogConfig(flush_policy=FlushPolicy.OS)


def wrong() -> memoryview:
    """A batch whose CRC does not fit."""
    data = batch(b"x")
    data[-1] ^= 1
    return data


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    is_small=st.booleans(),
    ages=st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_given_any_plain_sets_when_appended_as_runs_then_the_log_is_as_if_one_by_one(
    sizes, is_small, ages
):
    config = SMALL_SEGMENTS if is_small else LogConfig()

    def sets():
        for size, age in zip(sizes, ages, strict=False):
            yield batch(*[bytes([size])] * size, timestamp=NOW_MS - age)

    runs, single = LogStorage(config), LogStorage(config)
    left = list(sets())
    while left:
        counts, size = runs.log.appender.append_plain_run(left)
        assert size == sum(len(each) for each in left[: len(counts)])
        if not counts:
            runs.log.append(left[0])
            counts = [1]
        left = left[len(counts) :]
    for each in sets():
        single.log.append(each)

    for storage in (runs, single):
        storage.log.flush()
    assert runs.log.log_end_offset == single.log.log_end_offset == sum(sizes)
    assert runs.records() == single.records()
    for age in range(4):
        asked = NOW_MS - age
        assert runs.log.offset_for_timestamp(asked) == single.log.offset_for_timestamp(asked)


def test_given_a_run_with_a_wrong_set_when_appended_then_it_ends_before_that() -> None:
    storage = LogStorage(OS)

    counts, size = storage.log.appender.append_plain_run([batch(b"a"), wrong(), batch(b"b")])

    assert (counts, size) == ([1], len(batch(b"a")))
    assert storage.log.log_end_offset == storage.log.high_watermark == 1


def test_given_a_run_that_the_segment_has_no_room_for_when_appended_then_a_part_is() -> None:
    """R26: what fits goes in; the next append rolls."""
    storage = LogStorage(SMALL_SEGMENTS)
    log = storage.log

    counts, _ = log.appender.append_plain_run([batch(b"a") for _ in range(6)])
    full = log.appender.append_plain(batch(b"b"))
    log.append(batch(b"b"))

    assert (counts, full) == ([1] * 4, 0)
    assert [segment.base_offset for segment in log.segments] == [0, 4]


def test_given_a_full_disk_when_a_run_is_appended_then_nothing_of_it_is_there() -> None:
    storage = LogStorage(OS)
    storage.log.append(batch(b"a"))
    storage.disk.fail("write", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    with pytest.raises(StorageError):
        storage.log.appender.append_plain_run([batch(b"b"), batch(b"c")])

    assert storage.log.log_end_offset == 1
    counts, _ = storage.log.appender.append_plain_run([batch(b"d")])
    assert counts == [1]
    assert storage.records() == [(0, b"a"), (1, b"d")]


def test_given_a_closed_log_when_a_plain_set_is_appended_then_it_is_refused() -> None:
    storage = LogStorage(OS)
    storage.log.close()

    with pytest.raises(StorageError):
        storage.log.appender.append_plain(batch(b"a"))
    with pytest.raises(StorageError):
        storage.log.appender.append_plain_run([batch(b"a")])
