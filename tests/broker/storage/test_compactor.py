"""Cleaning, case by case: transactions, tombstones, several passes, segments that go meanwhile."""

from __future__ import annotations

import pytest

from broker.storage.compactor import clean_log
from broker.storage.offset_map import SLOT_BYTES
from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.record_batch_builder import build_batch
from protocol.stored.file_names import log_file_name
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
