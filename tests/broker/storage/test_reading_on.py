"""Reads of one that follows: where the last read ended, the next begins, without a search."""

from __future__ import annotations

from broker.storage.log_config import LogConfig
from broker.storage.log_reader import ReadLimit
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage, batch, records_of


def followed(config: LogConfig | None = None) -> LogStorage:
    """A log of three batches that somebody has read to its end."""
    storage = LogStorage(config)
    for number in range(3):
        storage.append(b"%d" % number)
    storage.flush()
    storage.log.read(0, 10_000)
    storage.log.read(3, 10_000)
    return storage


def reads(storage: LogStorage) -> int:
    return sum(operation.name == "read" for operation in storage.disk.operations)


def test_given_a_reader_at_the_end_when_more_is_there_then_its_place_is_known():
    storage = followed()
    storage.append(b"3")
    storage.append(b"4")
    storage.flush()
    before = reads(storage)

    data = storage.log.read(3, 10_000)

    assert reads(storage) == before
    assert records_of(data) == [(3, b"3"), (4, b"4")]
    assert (data.offset_metadata, data.size_bytes) == (
        storage.log.offset_metadata(3),
        2 * len(batch(b"3")),
    )


def test_given_a_log_of_one_segment_when_read_from_its_begin_then_that_place_is_known():
    storage = LogStorage()
    storage.append(b"0", b"1")
    storage.flush()
    before = reads(storage)

    data = storage.log.read(0, 10_000)

    assert reads(storage) == before
    assert records_of(data) == [(0, b"0"), (1, b"1")]
    assert data.offset_metadata == storage.log.offset_metadata(0)


def test_given_a_reader_at_the_end_when_all_does_not_fit_then_the_first_batch_still_comes_whole():
    storage = followed()
    storage.append(b"3")
    storage.append(b"4")
    storage.flush()
    one = len(batch(b"3"))

    assert records_of(storage.log.read(3, 1)) == [(3, b"3")]
    assert storage.log.read(3, one - 1, min_one=False).size_bytes == one - 1
    assert storage.log.read(3, 0).slices == ()


def test_given_a_reader_at_the_end_when_the_log_is_cut_and_grows_then_it_gets_what_is_there_now():
    storage = followed()
    storage.log.truncate_to(1)
    storage.append(b"longer than what was there")
    storage.append(b"2")
    storage.append(b"3")
    storage.flush()
    storage.log.read(0, 10_000)  # all of it is checked

    assert records_of(storage.log.read(3, 10_000)) == [(3, b"3")]


def test_given_a_reader_at_the_end_when_a_segment_is_rolled_then_it_reads_on_over_the_border():
    storage = followed(SMALL_SEGMENTS)
    for number in range(3, 9):
        storage.append(b"%d" % number)
    storage.flush()
    assert len(storage.log.segments) > 1

    assert records_of(storage.log.read(3, 10_000)) == [(n, b"%d" % n) for n in range(3, 9)]


def test_given_what_is_not_committed_when_read_on_then_only_up_to_the_limit():
    storage = followed()
    storage.append(b"3")
    storage.flush()
    storage.append(b"4")

    assert records_of(storage.log.read(3, 10_000)) == [(3, b"3")]
    assert records_of(storage.log.read(4, 10_000)) == []
    assert records_of(storage.log.read(3, 10_000, limit=ReadLimit.LOG_END))[-1] == (4, b"4")
