"""Formats v0 and v1 of old Kafka segments (R2, R3, R4, R6)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from protocol.compression import Codec, compress, decompress
from protocol.errors import MessageTooLargeError, TidelogError
from protocol.legacy_message_set import (
    check_entry,
    entry_key_value,
    has_magic,
    iterate_entries,
    iterate_entry_records,
    iterate_records,
    iterate_timestamps,
)
from protocol.legacy_message_set_builder import build_entry, build_set
from protocol.record import Record
from protocol.record_batch_header import TimestampType
from tests.support.legacy import CODECS, MAGICS, records, without_timestamps
from tests.support.old_kafka_logs import (
    PARTITIONS,
    segments,
    served,
    served_timestamp_types,
)

KAFKA_PYTHON_CODECS = [(0, Codec.NONE), (0, Codec.GZIP), (1, Codec.NONE), (1, Codec.GZIP)]
"""Those that kafka-python needs no further package for; v1 lz4 is tested below."""

GOLDEN_V0 = bytes.fromhex(
    "000000000000002a 00000014 1809f803 00 00 00000001 6b 00000005 7469646531"
)
GOLDEN_V1 = bytes.fromhex(
    "000000000000002a 0000001b 8b647e83 01 08 0000018bcfe56800 ffffffff 00000005 7469646531"
)


# --- layout -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("golden", "record", "magic", "timestamp_type"),
    [
        (GOLDEN_V0, Record(42, -1, b"k", b"tide1"), 0, TimestampType.CREATE_TIME),
        (
            GOLDEN_V1,
            Record(42, 1_700_000_000_000, None, b"tide1"),
            1,
            TimestampType.LOG_APPEND_TIME,
        ),
    ],
)
def test_given_golden_bytes_when_built_and_read_then_they_agree(
    golden, record, magic, timestamp_type
):
    """R2: both layouts, byte for byte; null is length -1."""
    built = build_set([record], magic=magic, timestamp_type=timestamp_type)
    entry = check_entry(golden)

    assert built == golden
    assert list(iterate_records(golden)) == [record]
    assert (entry.magic, entry.timestamp_type) == (magic, timestamp_type)
    assert entry.end_position == len(golden)


@pytest.mark.parametrize(("magic", "codec"), [*KAFKA_PYTHON_CODECS, (1, Codec.LZ4)])
def test_given_a_set_by_kafka_python_when_read_then_the_same_records(magic, codec):
    """R2, R3: an independent implementation's bytes."""
    builder = LegacyRecordBatchBuilder(magic, int(codec), 10_000)
    expected = []
    for offset in range(5):
        key, value = (None, b"v" * offset) if offset % 2 else (b"key", None)
        builder.append(offset, 1000 + offset, key, value)
        expected.append(Record(offset, 1000 + offset if magic else -1, key, value))

    read = list(iterate_records(builder.build()))

    assert read == expected


@pytest.mark.parametrize(("magic", "codec"), KAFKA_PYTHON_CODECS)
def test_given_a_set_by_us_when_read_by_kafka_python_then_the_same_records(magic, codec):
    """R2, R3: the other way round, with gaps between the offsets."""
    ours = [Record(100 + 3 * n, 50 + n, b"k" if n else None, b"v" * n) for n in range(6)]
    built = build_set(ours, magic=magic, codec=codec)

    theirs = MemoryRecords(built)
    read = []
    while theirs.has_next():
        for one in theirs.next_batch():
            assert one.validate_crc()
            timestamp = -1 if one.timestamp is None else one.timestamp
            read.append(Record(one.offset, timestamp, one.key, one.value))

    assert read == (ours if magic else without_timestamps(ours))


# --- round trips ------------------------------------------------------------------------------


@given(
    some=records(), magic=MAGICS, codec=CODECS, timestamp_type=st.sampled_from(list(TimestampType))
)
def test_given_records_when_built_then_deep_iteration_gives_them_back(
    some, magic, codec, timestamp_type
):
    """R3, R4: with every codec; LogAppendTime in a wrapper overrides the timestamps."""
    built = build_set(some, magic=magic, codec=codec, timestamp_type=timestamp_type)

    read = list(iterate_records(built))

    expected = some if magic else without_timestamps(some)
    if some and magic and codec and timestamp_type == TimestampType.LOG_APPEND_TIME:
        latest = max(record.timestamp for record in some)
        expected = [record._replace(timestamp=latest) for record in some]
    assert read == expected


@given(some=records(min_size=1), magic=MAGICS, codec=CODECS)
def test_given_a_set_when_iterated_shallow_then_wrappers_are_one(some, magic, codec):
    """R3, R4: a wrapper's offset is its last message's, its timestamp the largest."""
    built = build_set(some, magic=magic, codec=codec)

    entries = list(iterate_entries(built))

    offsets = [record.offset for record in some]
    assert [entry.offset for entry in entries] == (offsets[-1:] if codec else offsets)
    assert sum(entry.size_bytes for entry in entries) == len(built)
    assert {entry.codec for entry in entries} == {codec}
    if magic == 1:
        latest = max(record.timestamp for record in some)
        assert max(entry.timestamp for entry in entries) == latest


@given(some=records(min_size=1), codec=st.sampled_from([Codec.GZIP, Codec.SNAPPY]))
def test_given_wrappers_when_opened_then_inner_offsets_are_as_ruled(some, codec):
    """R3: absolute with magic 0, relative with magic 1."""
    offsets = [record.offset for record in some]

    inner_offsets = []
    for magic in (0, 1):
        wrapper = build_set(some, magic=magic, codec=codec)
        _, value = entry_key_value(wrapper, check_entry(wrapper))
        assert value is not None
        inner_offsets.append([one.offset for one in iterate_entries(decompress(codec, value))])

    assert inner_offsets == [offsets, [offset - offsets[0] for offset in offsets]]


def test_given_a_magic_0_lz4_wrapper_when_built_then_its_checksum_is_the_old_wrong_one():
    """R3: KAFKA-3160, written so and read so; the right one is read as well."""
    ours = [Record(7, -1, None, b"tide" * 20)]
    wrapper = build_set(ours, magic=0, codec=Codec.LZ4)
    _, value = entry_key_value(wrapper, check_entry(wrapper))
    inner = build_set(ours, magic=0)
    with_right = build_entry(7, None, compress(Codec.LZ4, inner), magic=0, codec=Codec.LZ4)

    assert value is not None
    with pytest.raises(TidelogError):
        decompress(Codec.LZ4, value)
    assert list(iterate_records(wrapper)) == ours
    assert list(iterate_records(with_right)) == ours


def test_given_xerial_snappy_when_read_then_the_same_records():
    """R3: the Java client frames snappy its own way."""
    ours = [Record(0, 10, b"k", b"v"), Record(1, 11, None, b"w")]
    block = compress(Codec.SNAPPY, build_set(ours, magic=1))
    framed = b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block
    wrapper = build_entry(1, None, framed, magic=1, timestamp=11, codec=Codec.SNAPPY)

    assert list(iterate_records(wrapper)) == ours


def test_given_gaps_inside_a_wrapper_when_read_then_offsets_count_from_its_last():
    """R3: after compaction: absolute = wrapper - last inner + inner."""
    inner = build_set([Record(n, 5, b"k", b"v") for n in (1, 4, 6)], magic=1)
    wrapper = build_entry(
        1006, None, compress(Codec.GZIP, inner), magic=1, timestamp=5, codec=Codec.GZIP
    )

    assert [record.offset for record in iterate_records(wrapper)] == [1001, 1004, 1006]


# --- what Kafka wrote -------------------------------------------------------------------------


@pytest.mark.parametrize("partition", [name for name in PARTITIONS if name != "upgraded-1"])
def test_given_segments_of_kafka_2_8_when_deep_iterated_then_what_kafka_served(partition):
    """R2, R3, R4: offsets, timestamps and their type, keys and values, for every record."""
    read, types = [], []
    for segment in segments(partition):
        for entry in iterate_entries(segment):
            inside = list(iterate_entry_records(segment, entry))
            read += [record[:4] for record in inside]
            name = ("CreateTime", "LogAppendTime")[entry.timestamp_type]
            types += [name if entry.magic else "NoTimestampType"] * len(inside)

    assert read == served(partition)
    assert types == served_timestamp_types(partition)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_given_segments_of_kafka_2_8_when_asked_for_magic_then_it_is_the_topics(partition):
    """R6: every entry, or not."""
    for segment in segments(partition):
        answers = [has_magic(segment, magic) for magic in (0, 1, 2)]

        assert answers == [partition.startswith("v0"), partition.startswith("v1"), False]


# --- has_magic, look-ups ----------------------------------------------------------------------


@given(first=records(min_size=1), second=records(min_size=1), codec=CODECS)
def test_given_two_formats_in_a_set_when_asked_then_it_has_neither(first, second, codec):
    """R6: every entry must be of the format; of none, every one is."""
    v0, v1 = build_set(first, magic=0, codec=codec), build_set(second, magic=1, codec=codec)

    assert has_magic(v0, 0)
    assert has_magic(v1, 1)
    assert not has_magic(v0 + v1, 0)
    assert not has_magic(v0 + v1, 1)
    assert has_magic(v0 + v1, 1, len(v0))
    assert has_magic(v0 + v1, 0, 0, len(v0))
    assert has_magic(b"", 2)


def test_given_a_cut_or_senseless_entry_when_asked_for_magic_then_only_the_cut_is_left_out():
    """R6: what follows a size that cannot be is not known to be of any format."""
    v1 = build_set([Record(0, 1, None, b"one")], magic=1)

    assert has_magic(v1 + GOLDEN_V0[:-1], 1)
    assert has_magic(v1 + GOLDEN_V0[:5], 1)
    assert not has_magic(v1 + struct.pack(">qi", 1, 13) + bytes(20), 1)


@given(some=records(min_size=1), codec=CODECS)
def test_given_an_entry_when_scanned_for_times_then_those_of_what_is_inside_come(some, codec):
    """R33"""
    inside = some if codec else some[:1]  # with a codec all records are in one entry

    found = iterate_timestamps(build_set(some, magic=1, codec=codec))

    assert list(found) == [(one.timestamp, one.offset) for one in inside]


def test_given_a_wrapper_that_grows_too_much_when_scanned_then_it_is_refused_before_the_first():
    wrapper = build_set([Record(0, 1, None, bytes(5_000))], magic=1, codec=Codec.GZIP)

    with pytest.raises(MessageTooLargeError):
        iterate_timestamps(wrapper, size_bytes_max=1_000)
