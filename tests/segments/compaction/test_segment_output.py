"""SegmentOutput: segments with the indexes that their logs need, and where a new one begins."""

from __future__ import annotations

from pathlib import Path

from protocol.record_batch_builder import build_batch
from protocol.stored import transaction_index
from protocol.stored.index_entries import decode_offset_index, decode_time_index
from protocol.stored.transaction_index import AbortedTransaction
from tidelog.segments.compaction.segment_output import SegmentOutput
from tidelog.segments.location import locate

BATCH_BYTES = len(build_batch([(0, 5, b"k", b"v")]))


def write(directory: Path, rows, base_offset: int = 0, **settings) -> SegmentOutput:
    """Write batches of one record each, of (offset, time) or (offset, time, aborted)."""
    output = SegmentOutput(locate(directory), base_offset, **settings)
    for offset, time, *aborted in rows:
        output.append(
            build_batch([(offset, time, b"k", b"v")], base_offset=offset),
            base_offset=offset,
            last_offset=offset,
            max_timestamp=time,
            aborted=aborted,
        )
    output.finish()
    return output


def names(directory: Path, suffix: str) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob(f"*{suffix}"))


def test_given_batches_when_written_then_indexes_as_a_broker_makes_them(tmp_path):
    rows = [(0, 5), (1, 9), (4, 7), (5, 9), (7, 30), (8, 11)]

    output = write(tmp_path, rows, index_interval_bytes=2 * BATCH_BYTES - 1)

    path = tmp_path / f"{0:020}"
    assert decode_offset_index(path.with_suffix(".index").read_bytes(), 0) == [
        (4, 2 * BATCH_BYTES), (7, 4 * BATCH_BYTES),
    ]  # fmt: skip
    assert decode_time_index(path.with_suffix(".timeindex").read_bytes(), 0) == [(9, 1), (30, 7)]
    assert (output.segments, output.size_bytes) == (1, 6 * BATCH_BYTES)
    assert names(tmp_path, ".txnindex") == []


def test_given_a_last_batch_that_is_the_latest_when_written_then_the_time_index_ends_with_it(
    tmp_path,
):
    write(tmp_path, [(3, 5), (4, 6)], base_offset=2)

    index = (tmp_path / f"{2:020}.timeindex").read_bytes()
    assert decode_time_index(index, 2) == [(6, 4)]


def test_given_offsets_that_no_index_can_tell_when_written_then_a_new_segment_begins(tmp_path):
    far = 2**31

    write(tmp_path, [(0, 5), (far - 1, 6), (far, 7), (2 * far, 8)])

    assert names(tmp_path, ".log") == [0, far, 2 * far]
    assert [path.stat().st_size // BATCH_BYTES for path in sorted(tmp_path.glob("*.log"))] == [
        2, 1, 1,
    ]  # fmt: skip


def test_given_a_full_segment_when_written_then_the_next_one_has_what_it_ends(tmp_path):
    aborted = [AbortedTransaction(7, 0, 1, 2), AbortedTransaction(7, 2, 3, 4)]
    rows = [(0, 5), (1, 5, aborted[0]), (2, 5), (3, 5, aborted[1])]

    write(tmp_path, rows, segment_bytes=2 * BATCH_BYTES)

    assert names(tmp_path, ".log") == names(tmp_path, ".txnindex") == [0, 2]
    for base_offset, entry in zip((0, 2), aborted, strict=True):
        data = (tmp_path / f"{base_offset:020}.txnindex").read_bytes()
        assert transaction_index.decode(data) == [entry]
