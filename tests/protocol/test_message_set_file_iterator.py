"""The file iterator, its four ends and its error (R4)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.compression import Codec
from protocol.errors import BatchCorruptError, TidelogError
from protocol.legacy_message_set_builder import build_set
from protocol.message_set_file_iterator import FileEntry, iterate_file
from protocol.record import Record
from protocol.record_batch_builder import build_batch
from tests.support.old_kafka_logs import segments

ONE = build_set([Record(7, 1, b"k", b"one")], magic=1)
TWO = build_set([Record(8, 1, b"k", b"two")], magic=0)
FILE = ONE + TWO


def reader_of(file: bytes):
    """A file's read, and a list of what was asked of it."""
    calls: list[tuple[int, int]] = []

    def read(size: int, position: int) -> bytes:
        calls.append((size, position))
        return file[position : position + size]

    return read, calls


def walk(file: bytes, start: int = 0, end: int | None = None, **options: int) -> list[FileEntry]:
    read, _ = reader_of(file)
    return list(iterate_file(read, start, len(file) if end is None else end, **options))


def found(entries: list[FileEntry]) -> list[tuple[int, int, int, int]]:
    return [(entry.offset, entry.position, entry.magic, entry.size_bytes) for entry in entries]


BOTH = [(7, 0, 1, len(ONE)), (8, len(ONE), 0, len(TWO))]


@pytest.mark.parametrize("window_bytes", [1, 12, 40, 70, 65536])
def test_given_whole_entries_when_walked_then_all_come_with_their_bytes(window_bytes):
    """R4: whatever is read at once."""
    entries = walk(FILE, window_bytes=window_bytes)

    assert found(entries) == BOTH
    assert b"".join(entry.data for entry in entries) == FILE


@pytest.mark.parametrize("end", range(len(ONE), len(FILE)))
def test_given_an_end_before_the_next_entrys_when_walked_then_it_ends_there(end):
    """R4, ends 1 and 3: no room for a prefix, or an entry past the slice's end."""
    assert found(walk(FILE, end=end)) == BOTH[:1]


@pytest.mark.parametrize("file_bytes", range(len(ONE), len(FILE)))
def test_given_a_file_cut_before_the_end_when_walked_then_it_ends_there(file_bytes):
    """R4, ends 2 and 4: the file ends inside the prefix, or inside the entry."""
    assert found(walk(FILE[:file_bytes], end=len(FILE))) == BOTH[:1]


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 13])
def test_given_a_size_under_the_minimum_when_walked_then_it_ends_there(size):
    """R4, end 3: zeros after a power cut are such a size."""
    file = ONE + struct.pack(">qi", 9, size) + bytes(100)

    assert found(walk(file)) == BOTH[:1]


def test_given_a_size_over_the_maximum_when_walked_then_an_error_with_its_position():
    """R4: an entry that lies there whole, and is too large."""
    size = len(TWO) - 12

    allowed = walk(ONE[:0] + TWO + TWO, size_bytes_max=size)
    with pytest.raises(BatchCorruptError) as caught:
        walk(TWO + ONE, size_bytes_max=size)

    assert len(allowed) == 2
    assert caught.value.position == len(TWO)


@given(start_entry=st.integers(0, 2), lead=st.binary(max_size=20))
def test_given_a_start_when_walked_then_positions_are_of_the_file(start_entry, lead):
    """R4: a slice of a file; what lies before it is not looked at."""
    starts = [0, len(ONE), len(FILE)]

    entries = walk(lead + FILE, len(lead) + starts[start_entry])

    shifted = [(offset, len(lead) + at, magic, size) for offset, at, magic, size in BOTH]
    assert found(entries) == shifted[start_entry:]


def test_given_many_small_entries_when_walked_then_few_reads():
    """R4: a system call for each entry would cost more than the entry."""
    read, calls = reader_of(ONE * 1000)

    count = sum(1 for _ in iterate_file(read, 0, len(ONE) * 1000, window_bytes=8192))

    assert count == 1000
    assert len(calls) <= len(ONE) * 1000 // (8192 - len(ONE)) + 1


def test_given_an_upgraded_segment_when_walked_then_all_three_formats_come_and_check():
    """R4: the prefix is the same in all formats; Kafka 2.8 wrote this segment."""
    (segment,) = segments("upgraded-1")

    entries = walk(segment)
    for entry in entries:
        entry.check()

    assert sorted({entry.magic for entry in entries}) == [0, 1, 2]
    assert sum(entry.size_bytes for entry in entries) == len(segment)


@pytest.mark.parametrize(
    "entry",
    [
        build_set([Record(1, 1, None, b"v0")], magic=0),
        build_set([Record(1, 1, None, b"v1")], magic=1, codec=Codec.SNAPPY),
        build_batch([Record(1, 1, None, b"v2")], base_offset=1),
    ],
)
def test_given_damage_when_checked_then_corrupt_at_the_position_in_the_file(entry):
    """R4: CRCs are looked at on demand only, by the format's own rule."""
    damaged = FILE + entry[:-1] + bytes([entry[-1] ^ 1])

    *_, last = walk(damaged)

    with pytest.raises(BatchCorruptError) as caught:
        last.check()
    assert caught.value.position == len(FILE)


@given(
    file=st.binary(max_size=120),
    end=st.integers(0, 150),
    window_bytes=st.integers(1, 60),
    flips=st.lists(st.tuples(st.integers(0, len(FILE) - 1), st.integers(1, 255)), max_size=2),
)
def test_given_any_bytes_when_walked_then_entries_inside_or_our_error(
    file, end, window_bytes, flips
):
    """R4: random and mutated files."""
    mutated = bytearray(FILE)
    for position, flip in flips:
        mutated[position] ^= flip
    for one in (file, bytes(mutated)):
        try:
            entries = walk(one, 0, end, window_bytes=window_bytes, size_bytes_max=1000)
        except TidelogError:
            continue

        assert all(entry.position + entry.size_bytes <= min(end, len(one)) for entry in entries)
