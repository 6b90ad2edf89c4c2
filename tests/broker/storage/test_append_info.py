"""AppendInfo: what is checked of a produced set, what is said of it, how it is stamped (R28)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.append_info import (
    AppendInfo,
    AppendRules,
    analyze_and_validate,
    assign_offsets,
    trim_invalid_bytes,
)
from broker.storage.log_config import CleanupPolicy, LogConfig, MessageTimestampType
from protocol.checksum import crc32c
from protocol.compression import Codec
from protocol.errors import (
    BatchCorruptError,
    BatchTruncatedError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    RecordListTooLargeError,
    TidelogError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from protocol.limits import RECORDS_PER_BATCH_MAX
from protocol.record_batch import HEADER, check_batch, iterate_batches, iterate_records
from protocol.record_batch_builder import build_batch
from tests.support.log_storage import NOW_MS, batch, batches

PLAIN = LogConfig()
LOG_APPEND_TIME = LogConfig(message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME)
COMPACTED = LogConfig(cleanup_policy=CleanupPolicy.COMPACT)
VALIDATING = LogConfig(validate_records=True)


def analyze(data: memoryview, config: LogConfig = PLAIN, first_offset: int = 0) -> AppendInfo:
    return analyze_and_validate(data, AppendRules(config), NOW_MS, first_offset)


def with_field(data: memoryview, number: int, value: int, *, seal: bool = True) -> memoryview:
    """A batch with one header field changed, and (`seal`) the CRC that fits."""
    changed = bytearray(data)
    fields = list(HEADER.unpack_from(changed))
    fields[number] = value
    HEADER.pack_into(changed, 0, *fields)
    if seal:
        fields[4] = crc32c(memoryview(changed)[21:])
        HEADER.pack_into(changed, 0, *fields)
    return memoryview(changed)


ATTRIBUTES, LAST_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP, RECORD_COUNT = 5, 6, 7, 8, 12


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    codec=st.sampled_from(list(Codec)),
    first_offset=st.integers(0, 2**40),
)
def test_given_a_set_when_analyzed_then_offsets_counts_bytes_and_times_are_said(
    counts, codec, first_offset
):
    """R28"""
    sets = [
        batch(*[b"v"] * count, timestamp=NOW_MS - number, codec=codec)
        for number, count in enumerate(counts)
    ]
    data = memoryview(bytearray(b"".join(sets)))

    info = analyze(data, first_offset=first_offset)

    assert (info.first_offset, info.message_count) == (first_offset, sum(counts))
    assert info.last_offset == first_offset + sum(counts) - 1
    assert (info.shallow_count, info.valid_bytes) == (len(counts), len(data))
    assert info.codec == codec
    assert (info.max_timestamp, info.append_time_ms) == (NOW_MS, -1)
    assert info.offset_of_max_timestamp == first_offset + counts[0] - 1


def test_given_offsets_that_do_not_rise_when_analyzed_then_it_is_not_monotonic():
    """R28: offsets as sent; the log gives its own all the same."""
    rising = bytearray(build_batch([(0, NOW_MS, None, b"a")], base_offset=0))
    rising += build_batch([(5, NOW_MS, None, b"b")], base_offset=5)

    assert analyze(memoryview(rising)).monotonic
    assert not analyze(batches([b"a"], [b"b"])).monotonic


@given(cut=st.integers(1, 1000))
def test_given_a_cut_last_batch_when_analyzed_then_the_whole_ones_are_valid(cut):
    """R28: the tail can be trimmed; a set of one cut batch leaves nothing, which is an error."""
    whole = batches([b"a"], [b"b", b"c"])
    last = batch(b"d" * 50)
    data = memoryview(bytearray(bytes(whole) + bytes(last[: -min(cut, len(last) - 1)])))

    info = analyze(data)
    trimmed = trim_invalid_bytes(data, info)

    assert (info.valid_bytes, info.message_count) == (len(whole), 3)
    assert bytes(trimmed) == bytes(whole)
    with pytest.raises(BatchTruncatedError):
        analyze(last[:-1])


def test_given_valid_bytes_when_trimmed_then_the_same_object_a_slice_or_an_error():
    """R28"""
    data = batch(b"a")
    info = analyze(data)

    assert trim_invalid_bytes(data, info) is data
    shorter = info._replace(valid_bytes=10)
    assert bytes(trim_invalid_bytes(data, shorter)) == bytes(data[:10])
    for valid_bytes in (-1, len(data) + 1):
        with pytest.raises(ValueError, match="valid bytes"):
            trim_invalid_bytes(data, info._replace(valid_bytes=valid_bytes))


def test_given_a_bad_crc_inside_when_analyzed_then_the_whole_set_is_refused():
    """R28"""
    data = batches([b"a"], [b"b"], [b"c"])
    data[len(batch(b"a")) + 65] ^= 1

    with pytest.raises(CorruptMessageError) as caught:
        analyze(data)

    assert caught.value.position == len(batch(b"a"))


@pytest.mark.parametrize(
    ("data", "config", "error"),
    [
        (memoryview(b""), PLAIN, InvalidRecordError),
        (with_field(batch(b"a"), 1, 48, seal=False), PLAIN, BatchCorruptError),
        (with_field(batch(b"a"), 3, 0), PLAIN, UnsupportedForMessageFormatError),
        (with_field(batch(b"a"), 3, 1), PLAIN, UnsupportedForMessageFormatError),
        (with_field(batch(b"a"), 3, 3), PLAIN, BatchCorruptError),
        (with_field(batch(b"a"), 4, 1, seal=False), PLAIN, BatchCorruptError),
        (with_field(batch(b"a"), ATTRIBUTES, 5), PLAIN, UnsupportedCompressionError),
        (with_field(batch(b"a"), ATTRIBUTES, 1 << 5), PLAIN, InvalidRecordError),
        (with_field(batch(b"a"), ATTRIBUTES, 1 << 4), PLAIN, InvalidRecordError),
        (with_field(batch(b"a"), ATTRIBUTES, 1 << 6), PLAIN, InvalidRecordError),
        (with_field(batch(b"a"), RECORD_COUNT, 2), PLAIN, InvalidRecordError),
        (with_field(batch(b"a"), RECORD_COUNT, 0), PLAIN, InvalidRecordError),
        (with_field(batch(b"a"), LAST_DELTA, 1), PLAIN, InvalidRecordError),
        (batch(b"a" * 200), LogConfig(max_message_bytes=200), MessageTooLargeError),
        (batch(b"a" * 200), LogConfig(segment_bytes=200), RecordListTooLargeError),
        (batches([b"a"], [b"b"]), LogConfig(segment_bytes=100), RecordListTooLargeError),
    ],
)
def test_given_a_set_that_breaks_a_rule_when_analyzed_then_its_error(data, config, error):
    """R28"""
    with pytest.raises(TidelogError) as caught:
        analyze(data, config)

    assert type(caught.value) is error


def test_given_an_absurd_count_with_a_right_crc_when_analyzed_then_it_is_refused():
    """R28: offsets are not to be burnt by one small batch, plain or compressed."""
    for codec in (Codec.NONE, Codec.ZSTD):
        data = with_field(batch(b"a", codec=codec), RECORD_COUNT, RECORDS_PER_BATCH_MAX + 1)
        data = with_field(data, LAST_DELTA, RECORDS_PER_BATCH_MAX)

        with pytest.raises(InvalidRecordError):
            analyze(data)


def test_given_timestamps_when_analyzed_then_only_those_near_the_clock_pass():
    """R28: both bounds are inclusive; no timestamp at all (-1) passes."""
    config = LogConfig(message_timestamp_before_max_ms=1_000, message_timestamp_after_max_ms=500)

    for timestamp in (NOW_MS - 1_000, NOW_MS + 500, -1):
        assert analyze(batch(b"a", timestamp=timestamp), config).max_timestamp == timestamp
    for timestamp in (NOW_MS - 1_001, NOW_MS + 501):
        with pytest.raises(InvalidTimestampError):
            analyze(batch(b"a", timestamp=timestamp), config)


def test_given_log_append_time_when_stamped_then_the_brokers_time_with_a_right_crc():
    """R29: LogAppendTime lies inside the CRC's range, so the CRC is computed anew."""
    data = batches([b"a", b"b"], [b"c"])
    data[: len(batch(b"a", b"b"))] = batch(b"a", b"b", timestamp=1)

    info = analyze(data, LOG_APPEND_TIME, first_offset=10)
    assign_offsets(data, info, 3)

    stored = [check_batch(data, position) for position, _ in iterate_batches(data)]
    assert [header.timestamp_type for header in stored] == [1, 1]
    assert [header.max_timestamp for header in stored] == [NOW_MS, NOW_MS]
    assert (info.append_time_ms, info.max_timestamp) == (NOW_MS, NOW_MS)


@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=5), epoch=st.integers(0, 9))
def test_given_a_set_when_stamped_then_offsets_follow_each_other_and_crcs_stay_right(counts, epoch):
    """R29: base offset and leader epoch are outside the CRC."""
    data = batches(*[[b"v"] * count for count in counts])
    crcs = [header.crc for _, header in iterate_batches(data)]

    assign_offsets(data, analyze(data, first_offset=42), epoch)

    stored = [check_batch(data, position) for position, _ in iterate_batches(data)]
    offsets = [
        record.offset
        for position, _ in iterate_batches(data)
        for record in iterate_records(data, position)
    ]
    assert offsets == list(range(42, 42 + sum(counts)))
    assert [header.leader_epoch for header in stored] == [epoch] * len(counts)
    assert [header.crc for header in stored] == crcs


def test_given_a_compacted_topic_when_a_key_is_null_then_the_set_is_refused():
    """R28: records are decoded for compacted topics."""
    keyless = memoryview(bytearray(build_batch([(0, NOW_MS, None, b"v")])))

    with pytest.raises(InvalidRecordError, match="no key"):
        analyze(keyless, COMPACTED)

    assert analyze(keyless, PLAIN).message_count == 1
    assert analyze(batch(b"v"), COMPACTED).message_count == 1


def test_given_validate_records_when_a_record_does_not_fit_its_header_then_it_is_refused():
    """R29: inner offsets that are not monotonic, a wrong largest timestamp, cut records."""
    whole = batch(b"a", b"b")
    inner = bytearray(whole)
    inner[61 + 3] = 4  # the first record's offset delta (zig-zag) becomes 2
    cases = [
        with_field(memoryview(inner), ATTRIBUTES, 0),
        with_field(whole, MAX_TIMESTAMP, NOW_MS + 1),
        with_field(with_field(whole, RECORD_COUNT, 1), LAST_DELTA, 0),
    ]

    for data in cases:
        assert analyze(data, PLAIN).shallow_count == 1
        with pytest.raises(TidelogError) as caught:
            analyze(data, VALIDATING)
        assert isinstance(caught.value, InvalidRecordError | CorruptMessageError)
    assert analyze(whole, VALIDATING).message_count == 2


def test_given_validate_records_when_one_record_is_too_old_then_the_set_is_refused():
    """R28: the header knows only the first and the largest timestamp."""
    config = msgspec.structs.replace(VALIDATING, message_timestamp_before_max_ms=1_000)
    times = [NOW_MS, NOW_MS - 5_000, NOW_MS]
    records = [(number, time, b"k", b"v") for number, time in enumerate(times)]
    data = memoryview(bytearray(build_batch(records)))

    with pytest.raises(InvalidTimestampError):
        analyze(data, config)
