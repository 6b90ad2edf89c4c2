"""Conversion between v0, v1 and v2 (R5)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from protocol.compression import Codec
from protocol.errors import BatchCorruptError, TidelogError, UnsupportedForMessageFormatError
from protocol.legacy_conversion import (
    PLAIN_BATCH_BYTES_MAX,
    from_v2,
    iterate_as_v2,
    to_v2,
)
from protocol.legacy_message_set import has_magic, iterate_entries
from protocol.legacy_message_set import iterate_records as iterate_legacy
from protocol.legacy_message_set_builder import build_entry, build_set
from protocol.record import Record
from protocol.record_batch import check_batch, iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import TimestampType
from tests.support.legacy import CODECS, MAGICS, records, without_timestamps
from tests.support.old_kafka_logs import PARTITIONS, segments, served

TYPES = st.sampled_from(list(TimestampType))


def records_of(batches: bytes) -> list[Record]:
    read: list[Record] = []
    for position, _ in iterate_batches(batches):
        check_batch(batches, position)
        read += iterate_records(batches, position)
    return read


@given(some=records(), magic=MAGICS, codec=CODECS, timestamp_type=TYPES)
def test_given_a_legacy_set_when_made_v2_then_every_record_is_kept(
    some, magic, codec, timestamp_type
):
    """R5: offsets with gaps, keys, values, timestamps as a reader of the legacy set sees them."""
    legacy = build_set(some, magic=magic, codec=codec, timestamp_type=timestamp_type)

    batches = to_v2(legacy, leader_epoch=3)

    assert records_of(batches) == list(iterate_legacy(legacy))
    for _, header in iterate_batches(batches):
        assert header.codec == codec
        assert header.timestamp_type == (timestamp_type if magic else TimestampType.CREATE_TIME)
        assert header.leader_epoch == 3


@given(some=records(min_size=1), codec=st.sampled_from(list(Codec)), magic=MAGICS)
def test_given_a_batch_when_made_legacy_then_what_the_target_has_is_kept(some, codec, magic):
    """R5: headers are lost, v0 has no timestamps, zstd becomes plain."""
    with_headers = [record._replace(headers=(("h", b"1"),)) for record in some]
    batch = build_batch(with_headers, base_offset=some[0].offset, codec=codec)

    legacy = from_v2(batch, magic)

    assert list(iterate_legacy(legacy)) == (some if magic else without_timestamps(some))
    assert has_magic(legacy, magic)
    kept = Codec.NONE if codec == Codec.ZSTD else codec
    assert {entry.codec for entry in iterate_entries(legacy)} == {kept}


@given(some=records(), magic=MAGICS, codec=CODECS, timestamp_type=TYPES)
def test_given_a_legacy_set_when_made_v2_and_back_then_the_same_records(
    some, magic, codec, timestamp_type
):
    """R5: up and down again loses nothing."""
    legacy = build_set(some, magic=magic, codec=codec, timestamp_type=timestamp_type)

    back = from_v2(to_v2(legacy), magic)

    assert list(iterate_legacy(back)) == list(iterate_legacy(legacy))


@given(some=records(min_size=1), codec=CODECS)
def test_given_log_append_time_when_made_legacy_then_its_bit_is_kept(some, codec):
    """R5: all records of such a batch have the batch's timestamp."""
    batch = build_batch(
        some,
        base_offset=some[0].offset,
        codec=codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )

    legacy = from_v2(batch, 1)

    assert list(iterate_legacy(legacy)) == list(iterate_records(batch))
    for entry in iterate_entries(legacy):
        assert entry.timestamp_type == TimestampType.LOG_APPEND_TIME


def test_given_control_and_empty_batches_when_made_legacy_then_they_are_left_out():
    """R5: older clients know no markers; a cleaned batch may hold nothing."""
    marker = build_batch(
        [Record(4, 9, b"\0\0\0\1", b"\0\0\0\0\0\0")],
        base_offset=4,
        is_control=True,
        is_transactional=True,
        producer_id=7,
        producer_epoch=0,
    )
    empty = build_batch([], base_offset=5, last_offset_delta=2)
    data = build_batch([Record(8, 9, None, b"data")], base_offset=8)

    legacy = from_v2(marker + empty + data, 1)

    assert list(iterate_legacy(legacy)) == [Record(8, 9, None, b"data")]


def test_given_plain_entries_when_made_v2_then_they_are_gathered_into_batches():
    """R5: one batch for each plain entry would double the bytes; one for all would be too much."""
    some = [Record(2 * n, 1000 + n, None, b"v" * 100) for n in range(1000)]

    batches = to_v2(legacy := build_set(some, magic=1))

    sizes = [header.size_bytes for _, header in iterate_batches(batches)]
    assert records_of(batches) == some
    assert len(batches) < len(legacy)
    assert max(sizes) <= PLAIN_BATCH_BYTES_MAX
    assert len(sizes) <= len(legacy) // PLAIN_BATCH_BYTES_MAX + 1


def test_given_positions_of_the_steps_when_a_caller_stops_then_it_can_go_on_there():
    """R5: so that a broker converts a little each turn of its loop."""
    some = [Record(n, -1, None, b"v" * 1000) for n in range(50)]
    legacy = build_set(some[:20], magic=0)
    legacy += build_set(some[20:40], magic=1, codec=Codec.LZ4) + build_set(some[40:], magic=1)

    steps = list(iterate_as_v2(legacy))

    assert len(steps) >= 4
    for _, position in steps:
        assert records_of(to_v2(legacy[:position]) + to_v2(legacy, position)) == some
    assert steps[-1][1] == len(legacy)


def test_given_record_batches_among_entries_when_made_v2_then_they_are_untouched():
    """R5: an upgraded log holds all formats in one segment."""
    batch = build_batch([Record(11, 3, b"k", b"v2")], base_offset=11, leader_epoch=9)
    v0 = build_set([Record(10, -1, b"k", b"v0")], magic=0)
    v1 = build_set([Record(12, 4, b"k", b"v1")], magic=1)

    steps = [bytes(step) for step, _ in iterate_as_v2(v0 + batch + v1)]

    assert steps[1] == batch
    assert [record.value for record in records_of(b"".join(steps))] == [b"v0", b"v2", b"v1"]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_given_segments_of_kafka_2_8_when_made_v2_then_what_kafka_served(partition):
    """R5: real wrappers, gaps after compaction, LogAppendTime, formats mixed in a segment."""
    batches = b"".join(to_v2(segment) for segment in segments(partition))

    assert [record[:4] for record in records_of(batches)] == served(partition)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_given_our_v2_of_kafka_2_8_segments_when_read_by_kafka_python_then_the_same(partition):
    """R5: an independent implementation reads what the conversion wrote."""
    read = []
    # It reads no snappy here (needs another package), so that becomes plain.
    for segment in segments(partition):
        theirs = MemoryRecords(without_snappy(to_v2(segment)))
        while theirs.has_next():
            read += [(one.offset, one.timestamp, one.key, one.value) for one in theirs.next_batch()]

    assert read == served(partition)


@given(some=records(min_size=2), magic=MAGICS, codec=CODECS, data=st.data())
def test_given_a_set_cut_anywhere_when_converted_then_whole_entries_only(some, magic, codec, data):
    """R4, R5: a cut last entry or batch ends the set, both ways."""
    legacy = build_set(some, magic=magic, codec=codec)
    batches = to_v2(legacy)
    legacy_bytes = data.draw(st.integers(0, len(legacy)))
    batches_bytes = data.draw(st.integers(0, len(batches)))

    up = to_v2(legacy[:legacy_bytes])
    down = from_v2(batches[:batches_bytes], magic)

    assert records_of(up) == list(iterate_legacy(legacy[:legacy_bytes]))
    whole = [position + header.size_bytes for position, header in iterate_batches(batches)]
    kept = max((end for end in whole if end <= batches_bytes), default=0)
    assert list(iterate_legacy(down)) == records_of(batches[:kept])


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([(5, 0), (5, 0)], id="an offset twice"),
        pytest.param([(5, 0), (4, 0)], id="an offset that goes back"),
        pytest.param([(2**63 - 1, 0)], id="no offset can follow"),
        pytest.param([(1, -(2**63)), (2, 2**63 - 1)], id="timestamps too far apart"),
    ],
)
def test_given_numbers_that_no_batch_holds_when_made_v2_then_corrupt(entries):
    """R5: an entry's offset is outside its CRC, so it can be anything."""
    legacy = b"".join(
        build_entry(offset, None, b"v", magic=1, timestamp=timestamp)
        for offset, timestamp in entries
    )

    with pytest.raises(BatchCorruptError):
        to_v2(legacy)


def test_given_a_leap_of_offsets_when_made_v2_then_another_batch_begins():
    """R5: offset deltas in a batch are 32 bits."""
    some = [Record(0, 0, None, b"a"), Record(2**31, 0, None, b"b"), Record(2**32, 0, None, b"c")]

    assert records_of(to_v2(build_set(some, magic=1))) == some
    with pytest.raises(BatchCorruptError):
        to_v2(build_set(some, magic=1, codec=Codec.GZIP))


def test_given_another_format_when_converted_then_our_errors():
    """R5: down from v2 only, and to 0 or 1 only."""
    legacy = build_set([Record(0, 0, None, b"v" * 100)], magic=1)
    batch = build_batch([Record(0, 0, None, b"v")])

    with pytest.raises(BatchCorruptError):
        from_v2(legacy, 0)
    with pytest.raises(UnsupportedForMessageFormatError):
        from_v2(batch, 2)


@given(data=st.binary(max_size=200), magic=MAGICS)
def test_given_any_bytes_when_converted_then_a_value_or_our_errors(data, magic):
    """R5: hostile bytes raise nothing else."""
    for convert in (to_v2, lambda some: from_v2(some, magic)):
        try:
            convert(data)
        except TidelogError:
            pass


@given(some=records(min_size=1), magic=MAGICS, codec=CODECS, data=st.data())
def test_given_mutated_bytes_when_converted_then_a_value_or_our_errors(some, magic, codec, data):
    """R5: nor do bytes that were right once; the offsets outside all CRCs are hit hardest."""
    legacy = build_set(some, magic=magic, codec=codec)
    damaged = bytearray(legacy + to_v2(legacy))
    position = data.draw(st.integers(0, len(damaged) - 8))
    struct.pack_into(">q", damaged, position, data.draw(st.integers(-(2**63), 2**63 - 1)))

    for part in (damaged, damaged[len(legacy) :]):
        for convert in (to_v2, lambda some: from_v2(some, magic)):
            try:
                convert(bytes(part))
            except TidelogError:
                pass


def without_snappy(batches: bytes) -> bytes:
    parts = []
    for position, header in iterate_batches(batches):
        part = batches[position : position + header.size_bytes]
        if header.codec == Codec.SNAPPY:
            part = build_batch(
                iterate_records(batches, position),
                base_offset=header.base_offset,
                timestamp_type=header.timestamp_type,
            )
        parts.append(part)
    return b"".join(parts)
