"""Offset index and time index: entries to bytes and back (R12, R17)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.stored.index_entries import (
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    OffsetIndexEntry,
    TimeIndexEntry,
    decode_offset_index,
    decode_time_index,
    encode_offset_index,
    encode_time_index,
)
from tests.support.damage import any_bytes, error_of

# Segment 24 of a partition, as Apache Kafka 4.3.0 wrote it and its DumpLogSegments printed it.
BASE_OFFSET = 24
OFFSET_INDEX = bytes.fromhex("000000050000024b 0000000900000357 0000000e0000059b 00000013000007d6")
OFFSET_INDEX_ENTRIES = [(29, 587), (33, 855), (38, 1435), (43, 2006)]
TIME_INDEX = bytes.fromhex("000001977420e0bc00000005 000001a1fc47b90e00000007")
TIME_INDEX_ENTRIES = [(1750000001212, 29), (1795233921294, 31)]

OFFSETS = st.sets(st.integers(1, 2**31 - 1), max_size=8).map(sorted)
BASES = st.integers(0, 2**40)


def offset_entries(base: int, relatives: list[int]) -> list[OffsetIndexEntry]:
    return [OffsetIndexEntry(base + relative, relative) for relative in relatives]


def time_entries(base: int, relatives: list[int]) -> list[TimeIndexEntry]:
    return [TimeIndexEntry(relative * 1000, base + relative // 2) for relative in relatives]


def test_given_kafkas_offset_index_when_decoded_then_it_is_what_kafka_says() -> None:
    """R12: offset index entry: relative offset int32, position int32."""
    entries = decode_offset_index(OFFSET_INDEX, BASE_OFFSET)

    assert entries == OFFSET_INDEX_ENTRIES
    assert encode_offset_index(entries, BASE_OFFSET) == OFFSET_INDEX


def test_given_kafkas_time_index_when_decoded_then_it_is_what_kafka_says() -> None:
    """R12: time index entry: timestamp int64, relative offset int32."""
    entries = decode_time_index(TIME_INDEX, BASE_OFFSET)

    assert entries == TIME_INDEX_ENTRIES
    assert encode_time_index(entries, BASE_OFFSET) == TIME_INDEX


@given(base=BASES, relatives=OFFSETS, free=st.integers(0, 3))
def test_given_any_offset_index_with_a_zero_tail_when_decoded_then_its_entries_come_back(
    base: int, relatives: list[int], free: int
) -> None:
    """R17: the zero tail of a preallocated file ends the index."""
    entries = offset_entries(base, relatives)

    data = encode_offset_index(entries, base) + bytes(8 * free)

    assert decode_offset_index(data, base) == entries


@given(base=BASES, relatives=OFFSETS, free=st.integers(0, 3))
def test_given_any_time_index_with_a_zero_tail_when_decoded_then_its_entries_come_back(
    base: int, relatives: list[int], free: int
) -> None:
    """R17: the zero tail of a preallocated file ends the index."""
    entries = time_entries(base, relatives)

    data = encode_time_index(entries, base) + bytes(12 * free)

    assert decode_time_index(data, base) == entries


def test_given_an_entry_not_above_the_one_before_when_decoded_then_the_index_ends_there() -> None:
    """R17: an entry not above the one before it ends the index."""
    repeated = OFFSET_INDEX + OFFSET_INDEX_ENTRY.pack(19, 3000)
    going_back = TIME_INDEX + TIME_INDEX_ENTRY.pack(1795233921294, 9)

    assert decode_offset_index(repeated, BASE_OFFSET) == OFFSET_INDEX_ENTRIES
    assert decode_time_index(going_back, BASE_OFFSET) == TIME_INDEX_ENTRIES


def test_given_a_first_entry_at_the_base_offset_when_decoded_then_it_is_legal() -> None:
    """R17: last offset not below the base offset, equal is legal."""
    offset_index = OFFSET_INDEX_ENTRY.pack(0, 5000)
    time_index = TIME_INDEX_ENTRY.pack(1750000001212, 0)

    assert decode_offset_index(offset_index, 24) == [(24, 5000)]
    assert decode_time_index(time_index, 24) == [(1750000001212, 24)]


@pytest.mark.parametrize("cut", [1, 4, 7])
def test_given_an_odd_size_when_decoded_then_refused(cut: int) -> None:
    """R17: the size is a multiple of the entry's."""
    with pytest.raises(StoredFormatError):
        decode_offset_index(OFFSET_INDEX[:-cut], BASE_OFFSET)
    with pytest.raises(StoredFormatError):
        decode_time_index(TIME_INDEX[:-cut], BASE_OFFSET)


@pytest.mark.parametrize("fields", [(-1, 5), (5, -1)])
def test_given_a_negative_field_when_decoded_then_refused(fields: tuple[int, int]) -> None:
    """R12: signed, as Kafka reads them; the engine never writes a negative one."""
    with pytest.raises(StoredFormatError):
        decode_offset_index(OFFSET_INDEX_ENTRY.pack(*fields), BASE_OFFSET)
    with pytest.raises(StoredFormatError):
        decode_time_index(TIME_INDEX_ENTRY.pack(*fields), BASE_OFFSET)


@given(data=any_bytes(st.sampled_from([OFFSET_INDEX, TIME_INDEX])))
def test_given_any_bytes_when_decoded_then_entries_or_our_error(data: bytes) -> None:
    errors = [
        error_of(lambda given_bytes: decode_offset_index(given_bytes, 7), data),
        error_of(lambda given_bytes: decode_time_index(given_bytes, 7), data),
    ]

    assert all(error is None or isinstance(error, StoredFormatError) for error in errors)
