"""Formats v0 and v1 of old Kafka segments (R2, R3, R4, R6)."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from protocol.compression import Codec, compress, decompress
from protocol.errors import (
    BatchCorruptError,
    BatchTruncatedError,
    MessageTooLargeError,
    TidelogError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from protocol.legacy_message_set import (
    check_entry,
    entry_key_value,
    entry_magic,
    first_record_at_or_after,
    has_magic,
    iterate_entries,
    iterate_entry_records,
    iterate_records,
    parse_entry,
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


def entry_of(magic: int, attributes: int, tail: bytes, offset: int = 5) -> bytes:
    """An entry whose CRC is right, whatever comes behind the attributes."""
    covered = bytes([magic, attributes]) + tail
    return struct.pack(">qiI", offset, 4 + len(covered), zlib.crc32(covered)) + covered


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


@given(some=records(min_size=1), codec=CODECS, time=st.integers(-2, 2**42), past=st.integers(-1, 9))
def test_given_a_time_when_looked_up_then_the_first_record_so_late(some, codec, time, past):
    """R33: in log order, at or above the offset that was asked from."""
    time = some[time % len(some)].timestamp + time % 2
    from_offset = some[0].offset + past
    # The look-up is within one entry; with a codec all records are in one.
    inside = some if codec else some[:1]
    late = [one for one in inside if one.timestamp >= time and one.offset >= from_offset]

    found = first_record_at_or_after(build_set(some, magic=1, codec=codec), 0, time, from_offset)

    assert found == ((late[0].timestamp, late[0].offset) if late else None)


# --- damage -----------------------------------------------------------------------------------


@given(some=records(min_size=1), magic=MAGICS, codec=CODECS, data=st.data())
def test_given_a_set_cut_anywhere_when_iterated_then_whole_entries_only(some, magic, codec, data):
    """R4: a cut last entry ends the set without an error."""
    built = build_set(some, magic=magic, codec=codec)
    size = data.draw(st.integers(0, len(built)))
    ends = [entry.end_position for entry in iterate_entries(built)]

    entries = list(iterate_entries(built[:size]))
    sliced = list(iterate_entries(built, 0, size))

    assert entries == sliced
    assert [entry.end_position for entry in entries] == [end for end in ends if end <= size]


@given(some=records(min_size=1), magic=MAGICS, codec=CODECS, data=st.data())
def test_given_a_flipped_bit_under_the_crc_when_checked_then_corrupt(some, magic, codec, data):
    """R2: CRC-32 from the magic byte on finds each single flip."""
    damaged = bytearray(build_set(some[:1], magic=magic, codec=codec))
    bit = data.draw(st.integers(16 * 8, len(damaged) * 8 - 1))
    damaged[bit // 8] ^= 1 << bit % 8

    with pytest.raises((BatchCorruptError, BatchTruncatedError)):
        check_entry(damaged)


def test_given_the_ends_of_a_buffer_when_parsed_then_truncated():
    """R4: a header that is not there is another error than one that is wrong."""
    for golden in (GOLDEN_V0, GOLDEN_V1):
        header_bytes = 18 + 8 * golden[16]
        for size in range(header_bytes):
            with pytest.raises(BatchTruncatedError):
                parse_entry(golden[:size])
        assert parse_entry(golden[:header_bytes]).size_bytes == len(golden)
        with pytest.raises(BatchTruncatedError):
            check_entry(golden[:-1])
    with pytest.raises(BatchTruncatedError):
        entry_magic(GOLDEN_V0[:16])
    assert entry_magic(GOLDEN_V1[:17]) == 1


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(entry_of(2, 0, bytes(60)), id="a record batch's magic"),
        pytest.param(entry_of(0, 0, bytes(7)), id="no room for both lengths"),
        pytest.param(entry_of(1, 0, bytes(15)), id="no room for them in v1"),
        pytest.param(entry_of(0, 0, struct.pack(">i4si", 5, b"abcd", -1)), id="a key too long"),
        pytest.param(entry_of(0, 0, struct.pack(">ii", -1, 1)), id="a value too long"),
        pytest.param(entry_of(0, 0, struct.pack(">ii", -2, 0)), id="a key of length -2"),
        pytest.param(entry_of(0, 0, struct.pack(">iix", -1, 0)), id="bytes left over"),
        pytest.param(entry_of(0, 0, struct.pack(">i4s", 4, b"abcd")), id="no value length"),
        pytest.param(entry_of(0, 0, struct.pack(">ii", -1, -1), offset=-1), id="an offset of -1"),
        pytest.param(entry_of(0, 1, struct.pack(">ii", -1, -1)), id="a wrapper without a value"),
        pytest.param(entry_of(0, 1, struct.pack(">iib", -1, 1, 7)), id="a value that is not gzip"),
    ],
)
def test_given_a_senseless_entry_with_a_right_crc_when_read_then_corrupt(entry):
    """R2: a right CRC does not make numbers sensible."""
    with pytest.raises(BatchCorruptError):
        list(iterate_records(entry))


@pytest.mark.parametrize(
    ("inner", "wrapper_offset"),
    [
        pytest.param(b"", 5, id="nothing inside"),
        pytest.param(build_entry(0, None, b"x", magic=1)[:-1], 5, id="cut inside"),
        pytest.param(
            build_entry(9, None, b"x", magic=1), 5, id="relative offset over the wrapper's"
        ),
        pytest.param(build_entry(0, None, b"x", magic=1) * 2, 5, id="offsets that do not grow"),
        pytest.param(
            build_set([Record(0, 0, None, b"x")], magic=1, codec=Codec.GZIP), 5, id="two levels"
        ),
        pytest.param(
            build_entry(-9, None, b"", magic=1) + build_entry(0, None, b"", magic=1),
            5,
            id="an offset below 0",
        ),
    ],
)
def test_given_a_senseless_wrapper_when_read_then_corrupt_at_its_position(inner, wrapper_offset):
    """R3: one level deep, whole, not empty, offsets that a partition can have."""
    compressed = compress(Codec.GZIP, inner)
    wrapper = build_entry(wrapper_offset, None, compressed, magic=1, codec=Codec.GZIP)

    with pytest.raises(BatchCorruptError) as caught:
        list(iterate_records(GOLDEN_V1 + wrapper))

    assert caught.value.position == len(GOLDEN_V1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec_bits", [4, 5, 6, 7])
def test_given_zstd_or_no_codec_at_all_when_read_then_unsupported(magic, codec_bits):
    """R3: these formats have gzip, snappy and lz4."""
    entry = entry_of(magic, codec_bits, bytes(8 * magic) + struct.pack(">ii3s", -1, 3, b"abc"))

    with pytest.raises(UnsupportedCompressionError):
        list(iterate_records(entry))
    with pytest.raises(UnsupportedCompressionError):
        build_set([Record(0, 0, None, b"x")], magic=magic, codec=Codec.ZSTD)


def test_given_magic_2_when_a_legacy_set_is_built_then_unsupported():
    """R2: the third format is the record batch."""
    with pytest.raises(UnsupportedForMessageFormatError):
        build_set([Record(0, 0, None, b"x")], magic=2)


def test_given_a_wrapper_that_grows_past_the_limit_when_read_then_too_large():
    """R3: what is decompressed is bounded."""
    wrapper = build_set([Record(0, 0, None, bytes(100_000))], magic=1, codec=Codec.GZIP)

    with pytest.raises(MessageTooLargeError):
        list(iterate_records(wrapper, size_bytes_max=100_000))
    assert len(list(iterate_records(wrapper, size_bytes_max=100_034))) == 1


@given(data=st.binary(max_size=200))
def test_given_any_bytes_when_read_then_values_or_our_errors(data):
    """R4: hostile bytes raise nothing else."""
    for magic in (0, 1, 2):
        assert has_magic(data, magic) in (True, False)
    try:
        list(iterate_records(data))
    except TidelogError:
        pass


@given(
    magic=MAGICS, attributes=st.integers(0, 255), tail=st.binary(max_size=80), inner=st.booleans()
)
def test_given_any_bytes_under_a_right_crc_when_read_then_values_or_our_errors(
    magic, attributes, tail, inner
):
    """R2, R3: nor do hostile bytes that somebody computed a CRC for."""
    entry = entry_of(magic, attributes, tail)
    if inner:
        entry = build_entry(3, None, compress(Codec.LZ4, entry), magic=magic, codec=Codec.LZ4)

    try:
        read = list(iterate_records(entry))
    except TidelogError:
        read = []

    assert all(record.offset >= 0 for record in read)


@given(some=records(min_size=1), magic=MAGICS, codec=CODECS, data=st.data())
def test_given_a_mutated_set_when_read_then_values_or_our_errors(some, magic, codec, data):
    """R4: nor do bytes that were right once; what is read was there."""
    damaged = bytearray(build_set(some, magic=magic, codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    try:
        read = list(iterate_records(damaged))
    except TidelogError:
        read = []

    assert {record.value for record in read} <= {record.value for record in some}
