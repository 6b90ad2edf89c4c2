"""LogAppender: runs of plain sets are appended as if each had come by itself (R26 to R29)."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.log_config import FlushPolicy, LogConfig
from protocol.errors import StorageError, TidelogError
from protocol.limits import INT32_MAX
from tests.support.log_storage import NOW_MS, SMALL_SEGMENTS, LogStorage, batch
from tests.support.producers import known, producer_batch, send

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


# --- idempotent producers -----------------------------------------------------------------------


@given(
    writers=st.lists(st.sampled_from([None, 7, 8]), min_size=1, max_size=20),
    sizes=st.lists(st.integers(1, 4), min_size=20, max_size=20),
    begin=st.sampled_from([0, INT32_MAX - 3, INT32_MAX]),
    oddity=st.sampled_from([None, "again", "gap", "epoch"]),
    at=st.integers(0, 19),
    is_small=st.booleans(),
)
def test_given_sets_of_producers_when_appended_as_runs_then_all_is_as_if_one_by_one(
    writers, sizes, begin, oddity, at, is_small
):
    """Repetitions, gaps and newer epochs among them, which a run leaves to the long way."""
    config = SMALL_SEGMENTS if is_small else LogConfig()

    def sets():
        sequences = {7: begin, 8: begin}
        for number, (writer, size) in enumerate(zip(writers, sizes, strict=False)):
            if writer is None:
                yield batch(*[b"v"] * size)
                continue
            sequence = sequences[writer]
            if number == at and oddity == "gap":
                sequence = (sequence + 5) % (INT32_MAX + 1)
            epoch = 1 if number == at and oddity == "epoch" else 0
            data = producer_batch(writer, sequence, count=size, epoch=epoch)
            sequences[writer] = (sequences[writer] + size) % (INT32_MAX + 1)
            yield data
            if number == at and oddity == "again":
                yield memoryview(bytearray(data))

    def one_by_one(log, data):
        try:
            return log.append(data).message_count
        except TidelogError as error:
            return type(error)

    runs, single = LogStorage(config), LogStorage(config)
    found, left = [], list(sets())
    while left:
        counts, _ = runs.log.appender.append_plain_run(left)
        found += counts or [one_by_one(runs.log, left[0])]
        left = left[len(counts) or 1 :]
    expected = [one_by_one(single.log, each) for each in sets()]

    assert found == expected
    for storage in (runs, single):
        storage.log.flush()
    assert known(runs.log) == known(single.log)
    assert runs.records() == single.records()


def test_given_a_run_of_a_known_producer_when_appended_then_one_write_takes_it_all() -> None:
    storage = LogStorage(OS)
    send(storage.log, 7, 0)
    storage.disk.operations.clear()

    counts, _ = storage.log.appender.append_plain_run(
        [producer_batch(7, 1), producer_batch(7, 2, count=3), batch(b"a"), producer_batch(7, 5)]
    )

    assert counts == [1, 3, 1, 1]
    assert [each.name for each in storage.disk.operations].count("write") == 1
    assert send(storage.log, 7, 2, count=3).first_offset == 2
    assert not send(storage.log, 7, 6).is_duplicate


@pytest.mark.parametrize("segment_bytes", [1 << 20, 150])
def test_given_a_run_that_is_not_written_when_sent_again_then_it_is_no_repetition(
    segment_bytes,
) -> None:
    """Refused by the disk, or for a new segment: the producer's next sequence is as it was."""
    storage = LogStorage(LogConfig(flush_policy=FlushPolicy.OS, segment_bytes=segment_bytes))
    for sequence in range(2):
        send(storage.log, 7, sequence)
    before = repr(known(storage.log))
    run = [producer_batch(7, 2), producer_batch(7, 3)]
    storage.disk.fail("write", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    if segment_bytes > 1000:
        with pytest.raises(StorageError):
            storage.log.appender.append_plain_run(run)
    else:
        assert storage.log.appender.append_plain_run(run) == ([], 0)

    assert repr(known(storage.log)) == before
    if segment_bytes > 1000:
        assert storage.log.appender.append_plain_run(run)[0] == [1, 1]
        assert storage.log.append(run[0]).is_duplicate
