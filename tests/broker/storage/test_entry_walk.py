"""Walking a file of batches and legacy entries: the search of R9, the four silent ends of R4."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage import entry_walk
from broker.storage.entry_walk import WINDOW_BYTES, EntryHeader
from broker.storage.offset_metadata import OffsetPosition
from protocol.errors import BatchCorruptError, BatchTruncatedError, CorruptMessageError
from protocol.record_batch_header import BatchHeader, TimestampType
from tests.support.log_entries import Entry, batch, joined, legacy_entry, positions


class Bytes:
    """Bytes behind the interface of a file; counts the reads."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.reads = 0

    def read(self, size: int, position: int) -> bytes:
        self.reads += 1
        return self.data[position : position + size]


def walk(data: bytes, position: int = 0, end: int | None = None) -> list[tuple[int, EntryHeader]]:
    return list(entry_walk.walk(Bytes(data).read, position, len(data) if end is None else end))


def search(
    data: bytes, target_offset: int, position: int = 0, *, is_whole: bool = True
) -> OffsetPosition | None:
    read = Bytes(data).read
    return entry_walk.search(read, position, len(data), target_offset, is_whole=is_whole)


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """Entries of all formats with growing offsets and gaps, some larger than a window."""
    entries: list[Entry] = []
    offset = draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 12))):
        body = bytes(draw(st.sampled_from([0, 1, 35, 400, WINDOW_BYTES - 61, 3 * WINDOW_BYTES])))
        magic = draw(st.sampled_from([0, 1, 2]))
        if magic == 2:
            entries.append(batch(offset, draw(st.integers(1, 4)), body))
        else:
            entries.append(legacy_entry(offset, magic, body))
        offset = entries[-1].last_offset + 1 + draw(st.sampled_from([0, 0, 3]))
    return entries


@given(entries=logs(), target_offset=st.integers(0, 60), skipped=st.integers(0, 12))
def test_given_any_log_when_searched_then_the_first_entry_ending_at_or_above_is_found(
    entries: list[Entry], target_offset: int, skipped: int
) -> None:
    """R9: by *last* offset; in legacy entries the offset is the last one. None at the end."""
    starts = positions(entries)
    skipped = min(skipped, len(entries))
    from_position = [*starts, len(joined(entries))][skipped]

    found = search(joined(entries), target_offset, from_position)

    expected = next(
        (
            OffsetPosition(entry.base_offset, start, len(entry.data))
            for entry, start in list(zip(entries, starts, strict=True))[skipped:]
            if entry.last_offset >= target_offset
        ),
        None,
    )
    assert found == expected


@given(entries=logs())
def test_given_any_log_when_walked_then_every_header_comes_in_order(entries: list[Entry]) -> None:
    """R4: shallow iteration, all formats."""
    found = walk(joined(entries))

    assert [position for position, _ in found] == positions(entries)
    assert [
        (header.base_offset, header.last_offset, header.next_offset, header.size_bytes)
        for _, header in found
    ] == [
        (entry.base_offset, entry.last_offset, entry.last_offset + 1, len(entry.data))
        for entry in entries
    ]
    assert [(header.magic, header.max_timestamp) for _, header in found] == [
        (entry.magic, entry.max_timestamp) for entry in entries
    ]


@given(entries=logs(), cut_bytes=st.integers(1, 200))
def test_given_a_cut_file_when_walked_then_the_whole_entries_come_without_an_error(
    entries: list[Entry], cut_bytes: int
) -> None:
    """R4: whatever of the last entry is missing, the walk ends in silence."""
    data = joined(entries)
    kept = data[: max(0, len(data) - cut_bytes)]

    found = walk(kept)
    found_in_a_file_shorter_than_the_set = walk(kept, end=len(data))

    whole = [
        start
        for entry, start in zip(entries, positions(entries), strict=True)
        if start + len(entry.data) <= len(kept)
    ]
    assert [position for position, _ in found] == whole
    assert [position for position, _ in found_in_a_file_shorter_than_the_set][: len(whole)] == whole


@given(data=st.binary(max_size=200), target_offset=st.integers(0, 10))
def test_given_any_bytes_when_walked_or_searched_then_only_our_errors_come(
    data: bytes, target_offset: int
) -> None:
    errors = []
    for attempt in (lambda: walk(data), lambda: search(data, target_offset)):
        try:
            attempt()
        except CorruptMessageError as error:
            errors.append(error)

    assert all(0 <= error.position < len(data) for error in errors)


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_given_a_size_under_the_minimum_when_met_then_the_walk_ends_and_the_search_raises(
    size: int,
) -> None:
    """R4: an end for the iterator. R9: a search may not take it for one."""
    first = batch(0).data
    data = first + struct.pack(">qi", 1, size) + bytes(60)

    found = walk(data)

    assert [position for position, _ in found] == [0]
    with pytest.raises(BatchCorruptError) as caught:
        search(data, 1)
    assert caught.value.position == len(first)


@pytest.mark.parametrize(("magic", "size"), [(0, 13), (1, 21), (2, 48)])
def test_given_a_size_under_its_formats_minimum_when_walked_then_the_walk_ends(
    magic: int, size: int
) -> None:
    """R4: each format has a minimum of its own."""
    data = struct.pack(">qiiB", 0, size, 0, magic) + bytes(100)

    assert walk(data) == []
    with pytest.raises(BatchCorruptError):
        search(data, 0)


def test_given_zeros_behind_the_entries_when_walked_then_the_walk_ends() -> None:
    """R4: a preallocated or torn tail is no record."""
    assert len(walk(batch(0).data + bytes(5_000))) == 1


def test_given_a_size_over_the_maximum_when_walked_then_it_is_an_error() -> None:
    """R4: the one end that is not silent."""
    data = batch(0, body=bytes(100)).data + batch(1, body=bytes(101)).data
    headers = entry_walk.walk(Bytes(data).read, 0, len(data), size_bytes_max=149)

    assert next(headers)[0] == 0
    with pytest.raises(BatchCorruptError, match="over the limit of 149") as caught:
        next(headers)
    assert caught.value.position == 161


def test_given_a_magic_that_is_none_when_met_then_it_is_an_error() -> None:
    data = bytearray(batch(0).data * 2)
    data[61 + 16] = 3

    with pytest.raises(BatchCorruptError, match="magic") as walked:
        walk(bytes(data))
    with pytest.raises(BatchCorruptError, match="magic") as searched:
        search(bytes(data), 5)

    assert walked.value.position == searched.value.position == 61


def test_given_an_impossible_batch_header_when_met_then_its_file_position_is_named() -> None:
    data = bytearray(batch(0).data * 2)
    data[61 + 23 : 61 + 27] = b"\xff\xff\xff\xff"  # last offset delta -1

    with pytest.raises(BatchCorruptError) as walked:
        walk(bytes(data))
    with pytest.raises(BatchCorruptError, match="last_offset_delta") as searched:
        search(bytes(data), 5)

    assert walked.value.position == searched.value.position == 61


def test_given_an_entry_past_the_end_when_searched_then_a_slice_ends_and_a_file_is_damaged() -> (
    None
):
    """R9: a slice may end inside a batch; in a whole file something is wrong."""
    data = batch(0).data + batch(1, body=bytes(40)).data[:-1]

    in_a_slice = search(data, 1, is_whole=False)

    assert in_a_slice is None
    with pytest.raises(BatchTruncatedError) as caught:
        search(data, 1)
    assert caught.value.position == 61


def test_given_a_file_that_became_shorter_when_searched_then_it_ends() -> None:
    data = Bytes(batch(0).data)

    found = entry_walk.search(data.read, 0, 200, 5, is_whole=True)

    assert found is None


def test_given_small_batches_when_searched_then_many_are_read_at_once() -> None:
    data = Bytes(b"".join(batch(offset).data for offset in range(1_000)))

    found = entry_walk.search(data.read, 0, len(data.data), 999, is_whole=True)

    assert found == OffsetPosition(999, 999 * 61, 61)
    assert data.reads <= len(data.data) // (WINDOW_BYTES - 61) + 1


def test_given_a_batch_when_walked_then_its_whole_header_comes() -> None:
    [(_, header)] = walk(batch(7, 3, max_timestamp=99).data)

    assert isinstance(header, BatchHeader)
    assert (header.last_offset_delta, header.record_count, header.max_timestamp) == (2, 3, 99)


def test_given_a_legacy_entry_when_walked_then_it_answers_as_a_batch_header_does() -> None:
    data = bytearray(legacy_entry(7, magic=1, timestamp=99).data)
    data[17] = 0b1010  # LogAppendTime, snappy

    [(_, header)] = walk(bytes(data))

    assert header.codec_bits == 2
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.leader_epoch == -1
    assert not header.is_control
    assert not header.is_transactional


# --- passing over ---------------------------------------------------------------------------------


@given(entries=logs(), stop=st.integers(0, 3_000))
def test_given_any_log_when_passed_over_then_the_entry_at_or_behind_the_stop_is_found(
    entries: list[Entry], stop: int
) -> None:
    data = joined(entries)
    borders = [*positions(entries), len(data)]

    found = entry_walk.pass_over(Bytes(data).read, 0, stop, len(data))

    assert found == next((each for each in borders if each >= stop), -1)


@given(data=st.binary(max_size=300), stop=st.integers(1, 300))
def test_given_any_bytes_when_passed_over_then_it_is_told_or_a_border(
    data: bytes, stop: int
) -> None:
    found = entry_walk.pass_over(Bytes(data).read, 0, stop, len(data))

    assert found == -1 or stop <= found <= len(data)
