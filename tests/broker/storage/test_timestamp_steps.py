"""Look-ups by time in steps: none of them takes long, and the log may change in between (R33)."""

from __future__ import annotations

import pytest

from broker.steps import SLICE_MESSAGES, Steps
from broker.storage.deleted_segments import abandon_segment
from broker.storage.log_config import LogConfig
from protocol.compression import Codec
from protocol.errors import CorruptMessageError, StorageError
from protocol.record_batch import Record
from protocol.record_batch_builder import build_batch
from tests.support.log_storage import NOW_MS, SMALL_SEGMENTS, LogStorage, batch
from tests.support.records import sealed
from tests.support.steps import observe_steps, run_steps

LATE_MS = NOW_MS + 1
ROOMY = LogConfig(max_message_bytes=8 << 20)


def one_late(count: int, value: bytes = b"", codec: Codec = Codec.NONE) -> memoryview:
    """A batch whose last record alone is late."""
    times = [NOW_MS] * (count - 1) + [LATE_MS]
    records = [Record(number, time, None, value) for number, time in enumerate(times)]
    return memoryview(bytearray(build_batch(records, codec=codec)))


def log_of(*batches: memoryview, config: LogConfig = ROOMY) -> LogStorage:
    storage = LogStorage(config)
    for each in batches:
        storage.log.append(each)
    storage.flush()
    return storage


def test_given_a_small_batch_when_looked_up_then_one_step_does_it():
    storage = log_of(one_late(500, codec=Codec.ZSTD))

    ran = observe_steps(storage.log.reader.timestamp_steps(LATE_MS))

    assert (ran.result, ran.steps, ran.jobs) == ((LATE_MS, 499), 1, [])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_given_many_records_when_looked_up_then_no_step_looks_at_more_than_a_slice(codec):
    storage = log_of(one_late(10 * SLICE_MESSAGES + 1, codec=codec))

    ran = observe_steps(storage.log.reader.timestamp_steps(LATE_MS))

    assert ran.result == (LATE_MS, 10 * SLICE_MESSAGES)
    assert ran.steps - len(ran.jobs) == 11


def test_given_a_few_bytes_that_grow_a_lot_when_looked_up_then_they_are_decompressed_as_a_job():
    growing = one_late(10, value=bytes(400_000), codec=Codec.ZSTD)
    assert len(growing) < 16 * 1024
    storage = log_of(growing)

    ran = observe_steps(storage.log.reader.timestamp_steps(LATE_MS))

    assert (ran.result, ran.steps, len(ran.jobs)) == ((LATE_MS, 9), 2, 1)


def test_given_a_large_batch_when_looked_up_then_its_crc_is_a_job_too_and_counts():
    storage = log_of(one_late(2, value=bytes(1 << 20)))
    path = storage.log.active.records.path
    storage.disk.open(path).write([b"\xff"], 1_000)

    with pytest.raises(CorruptMessageError):
        observe_steps(storage.log.reader.timestamp_steps(LATE_MS))
    with pytest.raises(CorruptMessageError):
        storage.log.offset_for_timestamp(LATE_MS)


def promising(count: int) -> memoryview:
    """A batch whose header has a later timestamp than its records."""
    records = [Record(number, NOW_MS, None, b"") for number in range(count)]
    return memoryview(sealed(build_batch(records), max_timestamp=LATE_MS))


def test_given_headers_that_promise_a_time_when_no_record_has_it_then_each_takes_a_step():
    storage = log_of(*[promising(2) for _ in range(3)])

    ran = observe_steps(storage.log.reader.timestamp_steps(LATE_MS))

    assert (ran.result, ran.steps) == (None, 4)


def test_given_an_append_between_steps_when_looked_up_then_it_ends_where_the_log_did():
    """What was appended behind the end that the look-up began with is no damage."""
    storage = log_of(promising(2))
    steps = storage.log.reader.timestamp_steps(LATE_MS)
    next(steps)

    storage.append(b"later")

    assert run_steps(steps) is None


def between_segments() -> tuple[LogStorage, Steps[tuple[int, int] | None]]:
    """A look-up that is inside the first of two segments."""
    config = LogConfig(segment_bytes=20_000, retention_ms=-1, retention_bytes=-1)
    storage = log_of(one_late(2_000), one_late(2_000), config=config)
    assert len(storage.log.segments) == 2
    steps = storage.log.reader.timestamp_steps(LATE_MS)
    next(steps)
    return storage, steps


@pytest.mark.parametrize("is_closed", [False, True])
def test_given_a_segment_deleted_between_steps_when_looked_up_then_the_next_one_answers(is_closed):
    storage, steps = between_segments()
    first = storage.log.segments.first
    assert first is not None

    storage.log.advance_log_start(2_000)
    storage.log.delete_old_segments(NOW_MS)
    if is_closed:
        abandon_segment(first)

    assert run_steps(steps) == (LATE_MS, 3_999)


def test_given_a_log_start_that_moves_between_steps_when_looked_up_then_nothing_below_it_answers():
    storage = log_of(one_late(2_000), one_late(2_000))
    steps = storage.log.reader.timestamp_steps(LATE_MS)
    next(steps)

    storage.log.advance_log_start(2_001)

    assert run_steps(steps) == (LATE_MS, 3_999)


def test_given_a_log_closed_between_steps_when_looked_up_then_a_storage_error():
    storage = log_of(promising(2), promising(2))
    steps = storage.log.reader.timestamp_steps(LATE_MS)
    next(steps)

    storage.log.abandon()

    with pytest.raises(StorageError):
        run_steps(steps)


def test_given_many_segments_when_looked_up_then_not_all_of_them_in_one_step():
    storage = log_of(*[batch(b"v") for _ in range(4 * 45)], config=SMALL_SEGMENTS)
    assert len(storage.log.segments) >= 45

    ran = observe_steps(storage.log.reader.timestamp_steps(LATE_MS))

    assert (ran.result, ran.steps) == (None, 3)
