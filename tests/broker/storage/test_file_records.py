"""FileRecords: the message set over a file, rules R6 to R11."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker.storage.file_handles import FileHandles
from broker.storage.file_records import FileRecords
from broker.storage.offset_metadata import OffsetPosition
from protocol.errors import BatchCorruptError, BatchTruncatedError, StorageError
from protocol.identifiers import Buffer
from protocol.limits import BUFFERS_PER_WRITE_MAX
from tests.support.fake_disk import FakeDisk
from tests.support.file_records import LOG, empty_records, on_fake_disk
from tests.support.log_entries import Entry, batch, legacy_entry


@pytest.fixture(params=["os", "fake"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> FileRecords:
    """An empty set, on the real and on the fake disk."""
    return empty_records(request.param, tmp_path)


# --- R6, R7, R8: a set, and slices of it ------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "magics"),
    [
        ([], {0, 1, 2}),
        ([batch(0), batch(1)], {2}),
        ([legacy_entry(0, 1)], {1}),
        ([legacy_entry(0, 0), legacy_entry(1, 0)], {0}),
        ([legacy_entry(0, 1), batch(1)], set()),
    ],
)
def test_given_a_set_when_asked_for_a_magic_then_every_entry_must_have_it(
    records: FileRecords, entries: list[Entry], magics: set[int]
) -> None:
    """R6: has_magic is about every entry of the set."""
    for entry in entries:
        records.append([entry.data], len(entry.data))

    found = {magic for magic in (0, 1, 2) if records.has_magic(magic)}

    assert found == magics


def test_given_appends_when_read_then_each_is_at_the_position_it_was_given(
    records: FileRecords,
) -> None:
    """R7: every read and write names its position."""
    first = records.append([b"abc"], 3)
    second = records.append([b"de", bytearray(b"f"), memoryview(b"gh")], 5)

    assert (first, second, records.size_bytes) == (0, 3, 8)
    assert records.read_bytes(2, 3) == b"cde"
    assert records.read_bytes(0, 100) == b"abcdefgh"
    assert records.read_bytes(8, 1) == records.read_bytes(100, 1) == b""


def test_given_more_buffers_than_a_call_takes_when_appended_then_all_are_there(
    records: FileRecords,
) -> None:
    buffers: list[Buffer] = [b"%04d" % number for number in range(BUFFERS_PER_WRITE_MAX + 100)]

    position = records.append(buffers, 4 * len(buffers))

    assert position == 0
    assert records.read_bytes(0, 10_000) == b"".join(buffers)


def test_given_one_buffer_when_appended_then_it_is_one_write() -> None:
    disk, records = on_fake_disk()
    records.append([b"abc"], 3)
    disk.operations.clear()

    records.append([b"def", b"ghi"], 6)

    assert [operation.name for operation in disk.operations] == ["write"]


def test_given_a_slice_when_read_then_it_counts_from_its_start(records: FileRecords) -> None:
    """R7: size counts the slice. R8: a slice of a slice is bounded by both."""
    records.append([b"0123456789"], 10)

    piece = records.read(2, 5)
    inner = piece.read(3, 100)

    assert (piece.size_bytes, piece.start) == (5, 2)
    assert piece.read_bytes(1, 2) == b"34"
    assert piece.read_bytes(4, 100) == b"6"
    assert (inner.size_bytes, inner.read_bytes(0, 100)) == (2, b"56")
    assert records.read(20, 5).size_bytes == 0


def test_given_a_slice_when_appended_to_or_cut_then_it_is_refused(records: FileRecords) -> None:
    """R7: append only at the end of a whole set; a slice cannot append."""
    records.append([b"0123456789"], 10)
    piece = records.read(0, 10)

    with pytest.raises(StorageError, match="slice"):
        piece.append([b"x"], 1)
    with pytest.raises(StorageError, match="slice"):
        piece.truncate_to(5)

    assert records.read_bytes(0, 100) == b"0123456789"


def test_given_a_set_with_an_end_when_opened_then_it_ends_there(records: FileRecords) -> None:
    """R7: what is behind the end is not the set's; the next append goes over it."""
    records.append([b"0123456789"], 10)

    bounded = FileRecords.open(records.handles, records.path, end=4)
    found = bounded.read_bytes(0, 100)
    bounded.append([b"x"], 1)

    assert found == b"0123"
    assert bounded.read_bytes(0, 100) == b"0123x"
    with pytest.raises(StorageError, match="10 bytes, not 11"):
        FileRecords.open(records.handles, records.path, end=11)


def test_given_a_buffer_when_read_into_then_it_is_filled_up_to_the_sets_end(
    records: FileRecords,
) -> None:
    """R8: read_into(buffer, position)."""
    records.append([b"0123456789"], 10)
    buffer = bytearray(b"......")

    count = records.read(0, 8).read_into(memoryview(buffer), 5)

    assert (count, buffer) == (3, bytearray(b"567..."))


@pytest.mark.parametrize(("position", "size"), [(-1, 1), (0, -1)])
def test_given_a_negative_position_or_size_when_read_then_it_is_refused(
    records: FileRecords, position: int, size: int
) -> None:
    """R8."""
    with pytest.raises(StorageError):
        records.read(position, size)
    with pytest.raises(StorageError):
        records.read_bytes(position, size)


def test_given_no_file_when_opened_then_the_error_says_so() -> None:
    handles = FileHandles(FakeDisk(), 10)

    with pytest.raises(StorageError) as caught:
        FileRecords.open(handles, LOG)

    assert caught.value.errno == errno.ENOENT


# --- R9: search; R4: the iterator -------------------------------------------------------------


def test_given_batches_when_searched_then_the_last_offset_decides(records: FileRecords) -> None:
    """R9: the first batch whose last offset is at or above the target; None at the end."""
    for entry in (legacy_entry(3, 0), batch(4, 3, bytes(39)), batch(10)):
        records.append([entry.data], len(entry.data))

    found = [records.search_for(target) for target in (0, 3, 4, 6, 7, 10, 11)]

    first, second, third = (
        OffsetPosition(3, 0, 26),
        OffsetPosition(4, 26, 100),
        OffsetPosition(10, 126, 61),
    )
    assert found == [first, first, second, second, third, third, None]
    assert records.search_for(3, from_position=26) == second


def test_given_a_slice_when_searched_and_walked_then_positions_count_from_its_start(
    records: FileRecords,
) -> None:
    """R7 and R9; a slice's end inside a batch is an end, not damage."""
    for offset in range(3):
        records.append([batch(offset).data], 61)
    piece = records.read(61, 100)

    walked = [(position, header.base_offset) for position, header in piece.batches()]

    assert piece.search_for(1) == OffsetPosition(1, 0, 61)
    assert piece.search_for(2) is None
    assert walked == [(0, 1)]


def test_given_a_batch_past_the_end_when_searched_then_the_set_is_damaged(
    records: FileRecords,
) -> None:
    """R9: what is under the minimum, or cut off in a whole set, is no end."""
    records.append([batch(0).data, batch(1, body=bytes(9)).data[:-1]], 61 + 69)

    with pytest.raises(BatchTruncatedError) as cut:
        records.search_for(1)
    records.truncate_to(61)
    records.append([bytes(70)], 70)
    with pytest.raises(BatchCorruptError) as zeros:
        records.search_for(1)

    assert cut.value.position == zeros.value.position == 61
    assert [position for position, _ in records.batches()] == [0]


def test_given_a_file_that_became_shorter_when_walked_then_the_cut_body_is_the_end(
    records: FileRecords,
) -> None:
    """R4: the fourth silent end."""
    records.append([batch(0, body=bytes(100)).data, batch(1, body=bytes(100)).data], 322)
    records.file().truncate(321)

    found = [position for position, _ in records.batches()]

    assert found == [0]


def test_given_an_iterator_when_its_file_is_closed_meanwhile_then_it_goes_on() -> None:
    disk, records = on_fake_disk(
        b"".join(batch(offset, body=bytes(9_000)).data for offset in [0, 1])
    )
    headers = records.batches()
    first, _ = next(headers)
    records.handles.close_all()

    second, _ = next(headers)

    assert (first, second) == (0, 9_061)
    assert disk.open_files == 1
