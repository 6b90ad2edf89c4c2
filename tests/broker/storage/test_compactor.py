"""Cleaning, case by case: transactions, tombstones, several passes, segments that go meanwhile."""

from __future__ import annotations

import pytest

from broker.storage.batch_filter import LastRecord
from broker.storage.compactor import (
    SLEEP_S_MAX,
    CleaningStoppedError,
    LogUncleanableError,
    clean_log,
)
from broker.storage.offset_map import SLOT_BYTES
from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.record_batch import iterate_records
from protocol.record_batch_builder import build_batch
from protocol.stored import transaction_index
from protocol.stored.file_names import log_file_name, transaction_index_file_name
from protocol.stored.transaction_index import AbortedTransaction
from tests.support.cleaning import NOW_MS, SealedSegments

ONE_KEY = 3 * SLOT_BYTES
"""The smallest map there is: of two keys."""


def record(offset: int, key: bytes | None, value: bytes | None, **fields) -> bytes:
    return build_batch([(offset, NOW_MS, key, value)], base_offset=offset, **fields)


def transactional(offset: int, key: bytes, value: bytes | None, sequence: int) -> bytes:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
    return record(offset, key, value, is_transactional=True, **producer)


def marker(offset: int, *, is_commit: bool) -> bytes:
    said = EndTransactionMarker(is_commit, coordinator_epoch=0, timestamp=NOW_MS)
    return build_marker_batch(said, producer_id=7, producer_epoch=0, base_offset=offset)


def left(segments: SealedSegments) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(each.offset, each.key, each.value) for each in segments.records()]


@pytest.mark.parametrize("is_commit", [True, False])
def test_given_a_transaction_when_cleaned_then_only_a_committed_one_outdates_what_was_before(
    is_commit,
):
    segments = SealedSegments(3)
    aborted = [] if is_commit else [AbortedTransaction(7, 1, 2, 3)]
    batches = [record(0, b"k", b"old"), transactional(1, b"k", b"new", 0)]
    segments.write([*batches, marker(2, is_commit=is_commit)], 0, aborted)

    segments.clean_all()

    assert left(segments) == ([(1, b"k", b"new")] if is_commit else [(0, b"k", b"old")])


def test_given_a_tombstone_that_a_pass_has_not_reached_when_it_is_old_then_it_stays():
    """The value that it deletes is still there: without it that would be back."""
    segments = SealedSegments(4)
    keys = (b"k", b"a", b"b")
    segments.write(
        [*(record(n, key, b"v") for n, key in enumerate(keys)), record(3, b"k", None)], 0
    )
    segments.clean(dedupe_buffer_bytes=ONE_KEY)
    assert segments.cleaned_offset < 3
    segments.clock.advance(ms=10_000)

    segments.cleaned_offset = 0  # as if the checkpoint was lost
    segments.clean(dedupe_buffer_bytes=ONE_KEY)

    assert segments.cleaned_offset < 3
    assert left(segments)[-1] == (3, b"k", None)
    segments.clean_all(dedupe_buffer_bytes=ONE_KEY)
    assert b"k" not in {key for _, key, value in left(segments) if value is not None}


def test_given_a_map_of_two_keys_when_cleaned_then_no_pass_is_wasted_and_all_is_clean():
    """A batch that fits the map in part only is gone on with inside."""
    segments = SealedSegments(12)
    batches = [
        build_batch(
            [(base + n, NOW_MS, b"key%d" % n, b"%d" % base) for n in range(6)], base_offset=base
        )
        for base in (0, 6)
    ]
    segments.write(batches, 0)

    passes = segments.clean_all(dedupe_buffer_bytes=ONE_KEY)

    assert passes <= 6
    assert left(segments) == [(6 + n, b"key%d" % n, b"6") for n in range(6)]


def three_segments() -> SealedSegments:
    segments = SealedSegments(30)
    for base in (0, 10, 20):
        batches = [record(base + n, b"key%d" % (n % 4), b"%d" % base) for n in range(10)]
        segments.write(batches, base)
    return segments


def remove(segments: SealedSegments, base_offset: int) -> None:
    segments.disk.unlink(segments.path / log_file_name(base_offset))


@pytest.mark.parametrize("gone", [1, 2])
def test_given_the_oldest_segments_gone_when_cleaned_then_the_others_are(gone):
    segments = three_segments()
    job = segments.job()
    for base_offset in (0, 10)[:gone]:
        remove(segments, base_offset)

    result = clean_log(job, segments.disk, segments.clock)

    (group,) = result.groups
    assert group.old_base_offsets == (0, 10, 20)[gone:]
    assert result.cleaned_offset == 30
    assert result.stats.counts.records_kept == 4


def test_given_a_segment_that_goes_between_groups_when_cleaned_then_the_rest_of_its_group_is_done():
    segments = three_segments()
    seen = []

    def report(group):
        seen.append(group.old_base_offsets)
        if segments.disk.exists(segments.path / log_file_name(10)):
            remove(segments, 10)

    job = segments.job(segment_bytes=1)
    clean_log(job, segments.disk, segments.clock, report=report)

    assert seen == [(0,), (20,)]


@pytest.mark.parametrize("lost", [(10,), (0, 10, 20)])
def test_given_a_lost_segment_that_was_not_the_oldest_when_cleaned_then_it_is_an_error(lost):
    """Of all of them gone, that is a deleted log, not a clean one."""
    segments = three_segments()
    job = segments.job()
    for base_offset in lost:
        remove(segments, base_offset)

    with pytest.raises(FileNotFoundError):
        clean_log(job, segments.disk, segments.clock)


@pytest.mark.parametrize("is_commit", [True, False])
def test_given_a_marker_of_nothing_when_cleaned_again_then_it_stays_until_its_horizon(is_commit):
    """KIP-534: a reader that had begun before must still learn how its transaction ended."""
    segments = SealedSegments(4)
    aborted = [] if is_commit else [AbortedTransaction(7, 0, 1, 2)]
    batches = [transactional(0, b"k", b"v", 0), marker(1, is_commit=is_commit)]
    segments.write([*batches, record(2, b"k", b"new"), record(3, b"l", b"last")], 0, aborted)

    def markers_after(ms: int) -> list[int]:
        segments.clock.advance(ms=ms)
        segments.cleaned_offset = 0
        segments.clean()  # delete_retention_ms is 1000
        return [each.header.base_offset for each in segments.batches() if each.header.is_control]

    assert markers_after(0) == [1]  # of what was there
    assert markers_after(5_000) == [1]  # of nothing, from here on
    assert markers_after(999) == [1]
    assert markers_after(1) == []


def test_given_a_transaction_that_is_aborted_behind_what_is_cleaned_when_cleaned_then_it_counts():
    """Its marker, and the index that tells of it, are in a segment that is left alone."""
    segments = SealedSegments(2)
    segments.write([record(0, b"k", b"old"), transactional(1, b"k", b"new", 0)], 0)
    job = segments.job(later_base_offsets=(2,))
    segments.write([marker(2, is_commit=False)], 2, [AbortedTransaction(7, 1, 2, 3)])

    result = clean_log(job, segments.disk, segments.clock)

    assert result.stats.counts.records_kept == 1
    data = segments.disk.read_file(segments.path / (log_file_name(0) + ".cleaned"))
    assert [each.value for each in iterate_records(data, 0)] == [b"old"]


def test_given_the_last_batch_before_what_is_left_alone_when_all_of_it_goes_then_it_stays_empty():
    """A segment that ended earlier would seem to lack its last records."""
    segments = SealedSegments(3)
    segments.write([record(0, b"a", b"1"), record(1, b"b", b"2"), record(2, None, b"3")], 0)

    segments.clean_all()

    assert [each.header.last_offset for each in segments.batches()] == [0, 1, 2]
    assert segments.batches()[-1].header.record_count == 0


def test_given_a_marker_that_alone_tells_an_epoch_when_its_time_is_over_then_it_stays_empty():
    """The producer's batches are gone; without it an older epoch would not be fenced any more."""
    segments = SealedSegments(2)
    segments.write([marker(0, is_commit=True), record(1, b"k", b"v")], 0)
    settings = {"last_records": {7: LastRecord(-1, 0)}}
    segments.clean(**settings)
    segments.clock.advance(ms=5_000)

    for _ in range(2):
        segments.cleaned_offset = 0
        segments.clean(**settings)
        first = segments.batches()[0].header
        assert (first.base_offset, first.producer_id, first.record_count) == (0, 7, 0)
        assert first.is_control

    segments.cleaned_offset = 0
    segments.clean(last_records={7: LastRecord(-1, 1)})
    assert [each.header.base_offset for each in segments.batches()] == [1]


def test_given_a_batch_that_loses_its_newest_record_when_cleaned_then_its_largest_time_is_lower():
    """Retention, and look-ups by time, go by it."""
    segments = SealedSegments(3)
    batch = build_batch(
        [(0, NOW_MS - 5, b"a", b"1"), (1, NOW_MS, b"b", b"1")], base_offset=0
    )  # fmt: skip
    segments.write([batch, record(2, b"b", b"2")], 0)

    segments.clean_all()

    assert [each.header.max_timestamp for each in segments.batches()] == [NOW_MS - 5, NOW_MS]


def test_given_an_abort_marker_that_stays_when_cleaned_then_the_index_tells_of_it():
    segments = SealedSegments(4)
    entry = AbortedTransaction(7, 1, 2, 3)
    batches = [record(0, b"k", b"old"), transactional(1, b"k", b"new", 0)]
    segments.write([*batches, marker(2, is_commit=False), record(3, b"l", b"v")], 0, [entry])

    segments.clean_all()

    index = segments.disk.read_file(segments.path / transaction_index_file_name(0))
    assert transaction_index.decode(index) == [entry]


def test_given_segments_of_an_age_when_they_become_one_then_it_is_as_old_as_the_newest():
    """Records without a timestamp, or with one from the future, age by it."""
    segments = SealedSegments(20)
    for base in (0, 10):
        segments.write([record(base + n, b"%d" % n, b"v") for n in range(10)], base)
        segments.clock.advance(ms=60_000)

    segments.clean_all()

    assert segments.base_offsets == [0]
    path = segments.path / log_file_name(0)
    assert segments.disk.modification_time_ms(path) == NOW_MS + 60_000


# --- room and pace --------------------------------------------------------------------------------


def test_given_a_disk_without_room_when_cleaned_then_nothing_is_written():
    segments = three_segments()
    size_bytes = sum(each.size_bytes for each in segments.job().segments)
    free_bytes = segments.disk.free_bytes(segments.path)

    with pytest.raises(LogUncleanableError, match="too few"):
        clean_log(
            segments.job(free_bytes_min=free_bytes - size_bytes + 1), segments.disk, segments.clock
        )

    assert not [name for name in segments.disk.list_directory(segments.path) if "cleaned" in name]
    clean_log(segments.job(free_bytes_min=free_bytes - size_bytes), segments.disk, segments.clock)


def test_given_a_rate_when_cleaned_then_no_more_is_moved_a_second():
    segments = three_segments()
    clock = segments.clock
    started_s = clock.monotonic()

    def sleep(seconds: float) -> None:
        assert 0 < seconds <= SLEEP_S_MAX
        clock.advance(ms=seconds * 1000)

    stats = clean_log(
        segments.job(io_bytes_per_second=1000), segments.disk, clock, sleep=sleep
    ).stats

    moved = stats.bytes_read + stats.bytes_written
    assert moved > 2000
    assert clock.monotonic() - started_s == pytest.approx(moved / 1000, abs=0.01)


def test_given_a_pass_that_waits_when_it_is_to_stop_then_it_does_at_once():
    segments = three_segments()

    with pytest.raises(CleaningStoppedError):
        clean_log(
            segments.job(io_bytes_per_second=1), segments.disk, segments.clock,
            should_stop=lambda: True,
        )  # fmt: skip

    assert not [name for name in segments.disk.list_directory(segments.path) if "cleaned" in name]
