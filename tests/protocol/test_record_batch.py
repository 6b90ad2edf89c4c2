"""RecordBatch: headers, checks for stored and for produced batches, stamping, walking."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.checksum import crc32c
from protocol.compression import Codec
from protocol.errors import (
    BatchCorruptError,
    BatchTruncatedError,
    CorruptMessageError,
    ErrorCode,
    InvalidRecordError,
    TidelogError,
    UnsupportedCompressionError,
    UnsupportedForMessageFormatError,
)
from protocol.record_batch import (
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    check_batch,
    check_produced_batch,
    iterate_batches,
    iterate_records,
    parse_header,
    stamp_log_append_time,
    stamp_offset,
)
from protocol.record_batch_builder import build_batch
from tests.support import kafka_logs
from tests.support.records import GOLDEN, GOLDEN_RECORDS, record_lists, sealed

EMPTY = build_batch([], base_offset=28, last_offset_delta=1, max_timestamp=5)
INT64_MAX = 2**63 - 1


def test_given_golden_bytes_when_parsed_then_every_field() -> None:
    header = parse_header(b"\xff" * 7 + GOLDEN, 7)

    assert header == BatchHeader(
        base_offset=0,
        batch_length=85,
        leader_epoch=0,
        magic=2,
        crc=0xFD64511A,
        attributes=0,
        last_offset_delta=2,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_005,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=3,
    )
    assert (header.size_bytes, header.last_offset, header.next_offset) == (len(GOLDEN), 2, 3)


def test_given_attributes_when_parsed_then_each_bit_has_its_meaning() -> None:
    meanings = {
        0b0000001: ("codec", Codec.GZIP),
        0b0000100: ("codec", Codec.ZSTD),
        0b0001000: ("timestamp_type", TimestampType.LOG_APPEND_TIME),
        0b0010000: ("is_transactional", True),
        0b0100000: ("is_control", True),
        0b1000000: ("has_delete_horizon", True),
    }

    plain = parse_header(GOLDEN)

    for bits, (name, value) in meanings.items():
        assert getattr(parse_header(sealed(GOLDEN, attributes=bits)), name) == value
        assert getattr(plain, name) != value


def test_given_an_undefined_codec_when_asked_for_then_unsupported() -> None:
    header = check_batch(sealed(GOLDEN, attributes=7))

    assert header.codec_bits == 7
    with pytest.raises(UnsupportedCompressionError):
        _ = header.codec
    with pytest.raises(UnsupportedCompressionError):
        iterate_records(sealed(GOLDEN, attributes=7))


IMPOSSIBLE = [
    {"magic": 0},
    {"magic": 1},
    {"magic": 3},
    {"magic": -1},
    {"batch_length": 48},
    {"batch_length": -1},
    {"batch_length": -(2**31)},
    {"base_offset": -1},
    {"base_offset": INT64_MAX - 2},
    {"record_count": -1},
    {"record_count": 4},
    {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 1},
    {"record_count": 0, "last_offset_delta": -1},
    {"last_offset_delta": -5},
    {"record_count": 6, "last_offset_delta": 5},  # 36 bytes hold 5 records at most
    {"record_count": 2**24 + 1, "last_offset_delta": 2**24, "attributes": 1},
]


@pytest.mark.parametrize("fields", IMPOSSIBLE, ids=str)
def test_given_impossible_fields_when_parsed_then_corrupt(fields: dict[str, int]) -> None:
    batch = bytes(3) + sealed(GOLDEN, **fields)

    for read in (parse_header, check_batch, iterate_records):
        with pytest.raises(BatchCorruptError) as raised:
            read(batch, 3)
        assert raised.value.position == 3


@pytest.mark.parametrize("fields", [{"last_offset_delta": 9}, {"base_offset": INT64_MAX - 3}])
def test_given_a_cleaned_batch_when_checked_then_it_is_sound(fields: dict[str, int]) -> None:
    batch = sealed(GOLDEN, **fields)

    assert check_batch(batch)._asdict().items() >= fields.items()


def test_given_a_batch_emptied_by_cleaning_when_checked_then_it_is_sound() -> None:
    header = check_batch(EMPTY)

    assert (header.size_bytes, header.record_count, header.next_offset) == (61, 0, 30)
    assert list(iterate_records(EMPTY)) == []


@pytest.mark.parametrize("check", [check_batch, check_produced_batch])
@given(bit=st.integers(17 * 8, len(GOLDEN) * 8 - 1), by_kafka_python=st.booleans())
def test_given_one_flipped_bit_behind_the_magic_when_checked_then_refused(
    check, bit, by_kafka_python
) -> None:
    batch = bytearray(GOLDEN if by_kafka_python else build_batch(GOLDEN_RECORDS))
    batch[bit // 8] ^= 1 << bit % 8

    with pytest.raises(BatchCorruptError):
        check(batch)


@given(size=st.integers(0, len(GOLDEN) - 1), before=st.binary(max_size=5))
def test_given_a_batch_cut_short_when_read_then_truncated(size: int, before: bytes) -> None:
    cut = memoryview(before + GOLDEN[:size])

    for read in (check_batch, check_produced_batch, iterate_records):
        with pytest.raises(BatchTruncatedError) as raised:
            read(cut, len(before))
        assert raised.value.position == len(before)


def test_given_a_header_alone_when_parsed_then_it_is_enough() -> None:
    assert parse_header(GOLDEN[:HEADER_BYTES]).record_count == 3
    with pytest.raises(BatchTruncatedError):
        parse_header(GOLDEN[: HEADER_BYTES - 1])


PRODUCIBLE = [
    {},
    {"base_offset": -7},
    {"base_offset": INT64_MAX},
    {"leader_epoch": 99},
    {"attributes": 4},
    {"producer_id": 0, "producer_epoch": 0, "base_sequence": 0},
    {"producer_id": 5, "producer_epoch": 1, "base_sequence": 2**31 - 1, "attributes": 16},
    {"base_sequence": 0},  # Kafka's own offset topics have that without a producer
    {"attributes": 1 << 9},  # unused bits: for those who come later
]


@pytest.mark.parametrize("fields", PRODUCIBLE, ids=str)
def test_given_what_producers_send_when_checked_then_the_header(fields: dict[str, int]) -> None:
    batch = sealed(GOLDEN, **fields)

    header = check_produced_batch(memoryview(bytes(9) + batch), 9)

    assert header == HEADER.unpack_from(batch)
    assert type(header) is BatchHeader


REFUSED = [
    ({"record_count": 0}, InvalidRecordError),
    ({"record_count": 0, "last_offset_delta": -1}, InvalidRecordError),
    ({"record_count": -1}, InvalidRecordError),
    ({"record_count": 2}, InvalidRecordError),
    ({"record_count": 4}, InvalidRecordError),
    ({"last_offset_delta": -1}, InvalidRecordError),
    ({"record_count": 6, "last_offset_delta": 5}, InvalidRecordError),
    ({"record_count": 2**30, "last_offset_delta": 2**30 - 1, "attributes": 1}, InvalidRecordError),
    ({"attributes": 1 << 3}, InvalidRecordError),
    ({"attributes": 1 << 5}, InvalidRecordError),
    ({"attributes": 1 << 6}, InvalidRecordError),
    ({"attributes": 1 << 4}, InvalidRecordError),
    ({"producer_id": -2}, InvalidRecordError),
    ({"producer_id": 1, "producer_epoch": -1, "base_sequence": 0}, InvalidRecordError),
    ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -1}, InvalidRecordError),
    ({"attributes": 5}, UnsupportedCompressionError),
    ({"attributes": 7 | 16}, UnsupportedCompressionError),
    ({"magic": 0}, UnsupportedForMessageFormatError),
    ({"magic": 1}, UnsupportedForMessageFormatError),
    ({"magic": 3}, BatchCorruptError),
    ({"magic": -1}, BatchCorruptError),
    ({"batch_length": 48}, BatchCorruptError),
    ({"batch_length": -(2**31)}, BatchCorruptError),
    ({"batch_length": 2**31 - 1}, BatchTruncatedError),
    ({"crc": 0}, BatchCorruptError),
    ({"crc": 0, "attributes": 7, "record_count": 9}, BatchCorruptError),  # damage comes first
]


@pytest.mark.parametrize(("fields", "error"), REFUSED, ids=str)
def test_given_what_no_producer_may_send_when_checked_then_its_error(
    fields: dict[str, int], error: type[TidelogError]
) -> None:
    batch = sealed(GOLDEN, **fields)

    with pytest.raises(error) as raised:
        check_produced_batch(batch)

    assert type(raised.value) is error


def test_given_a_short_message_of_an_old_format_when_checked_then_said_so() -> None:
    message = bytes.fromhex("0000000000000000 0000000f 00000000 00 00 ffffffff 00000001 41")

    with pytest.raises(UnsupportedForMessageFormatError) as raised:
        check_produced_batch(message)

    assert raised.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@given(records=record_lists(), base_offset=st.integers(0, 2**62), epoch=st.integers(-1, 2**31 - 1))
def test_given_an_offset_when_stamped_then_the_crc_holds_and_all_else_stays(
    records, base_offset, epoch
) -> None:
    before = bytes(5) + build_batch(records) + bytes(5)
    stamped = bytearray(before)

    stamp_offset(memoryview(stamped), 5, base_offset, epoch)

    expected = parse_header(before, 5)._replace(base_offset=base_offset, leader_epoch=epoch)
    assert check_batch(stamped, 5) == expected
    assert len(stamped) == len(before)
    assert stamped[5 + HEADER_BYTES :] == before[5 + HEADER_BYTES :]
    assert [r.offset for r in iterate_records(stamped, 5)] == [
        base_offset + r.offset for r in records
    ]


@pytest.mark.parametrize("view", [bytearray, memoryview])
@settings(max_examples=40)
@given(records=record_lists(), codec=st.sampled_from(Codec), timestamp_ms=st.integers(0, 2**50))
def test_given_log_append_time_when_stamped_then_every_record_has_it(
    view, records, codec, timestamp_ms
) -> None:
    """R29: attribute bit and max timestamp are inside the CRC's range."""
    before = bytes(5) + build_batch(records, codec=codec) + bytes(5)
    stamped = bytearray(before)

    stamp_log_append_time(view(stamped) if view is memoryview else stamped, 5, timestamp_ms)

    header = check_batch(stamped, 5)
    assert header.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert header.codec == codec
    assert header.max_timestamp == timestamp_ms
    assert header.base_timestamp == records[0].timestamp
    assert list(iterate_records(stamped, 5)) == [
        record._replace(timestamp=timestamp_ms) for record in records
    ]
    stamped.append(0)  # no view of it is left behind


def test_given_golden_bytes_when_stamped_with_the_append_time_then_golden_bytes() -> None:
    stamped = bytearray(GOLDEN)

    stamp_log_append_time(stamped, 0, 0x0102030405060708)

    assert stamped[:17] + stamped[43:] == GOLDEN[:17] + GOLDEN[43:]
    assert stamped[21:23].hex() == "0008"
    assert stamped[35:43].hex() == "0102030405060708"
    assert int.from_bytes(stamped[17:21], "big") == crc32c(stamped[21:])


def test_given_batches_in_a_row_when_walked_then_positions_and_headers() -> None:
    second = build_batch(GOLDEN_RECORDS, base_offset=0, codec=Codec.LZ4)
    buffer = b"\0\0" + GOLDEN + second + EMPTY

    walked = list(iterate_batches(buffer, 2))

    starts = [2, 2 + len(GOLDEN), 2 + len(GOLDEN) + len(second)]
    assert [position for position, _ in walked] == starts
    assert [header for _, header in walked] == [parse_header(buffer, start) for start in starts]
    assert list(iterate_batches(buffer, 2, starts[1])) == walked[:1]
    assert list(iterate_batches(buffer, len(buffer))) == []


@given(cut=st.integers(1, len(GOLDEN) - 1), as_end=st.booleans())
def test_given_a_cut_last_batch_when_walked_then_the_whole_ones_then_truncated(
    cut: int, as_end: bool
) -> None:
    whole = GOLDEN + GOLDEN
    end = len(whole) - cut
    buffer, limit = (whole, end) if as_end else (whole[:end], None)

    walk = iterate_batches(buffer, 0, limit)

    assert next(walk)[0] == 0
    with pytest.raises(BatchTruncatedError) as raised:
        next(walk)
    assert raised.value.position == len(GOLDEN)


def test_given_damage_in_a_row_when_walked_then_corrupt_at_its_position() -> None:
    walk = iterate_batches(GOLDEN + bytes(100))

    assert next(walk)[0] == 0
    with pytest.raises(BatchCorruptError) as raised:
        next(walk)
    assert raised.value.position == len(GOLDEN)


@given(data=st.binary(max_size=200), position=st.integers(0, 200), has_magic=st.booleans())
def test_given_any_bytes_when_checked_then_a_header_or_our_error(
    data: bytes, position: int, has_magic: bool
) -> None:
    buffer = bytearray(data)
    if has_magic and len(buffer) > position + 16:
        buffer[position + 16] = 2

    for check in (parse_header, check_batch, check_produced_batch):
        try:
            header = check(buffer, position)
        except CorruptMessageError as error:
            problem: TidelogError = error
        except (UnsupportedForMessageFormatError, InvalidRecordError) as error:
            problem = error
        else:
            assert header.size_bytes >= HEADER_BYTES
            continue
        assert str(problem)


@pytest.mark.parametrize("partition", kafka_logs.PARTITIONS)
def test_given_what_kafka_wrote_when_walked_then_all_sound_and_all_records(partition: str) -> None:
    read = []

    for segment in kafka_logs.segments(partition):
        for position, header in iterate_batches(segment):
            assert check_batch(segment, position) == header
            records = list(iterate_records(segment, position))
            assert len(records) == header.record_count
            if not header.is_control:
                read += records

    assert read == kafka_logs.served(partition)
    assert read
