"""Record: decoding what is inside a batch, and refusing what is not sound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.compression import Codec, compress
from protocol.errors import BatchCorruptError, MessageTooLargeError, TidelogError
from protocol.record_batch import (
    Record,
    TimestampType,
    iterate_records,
    iterate_timestamps,
    max_timestamp_and_offset,
    open_values,
)
from protocol.record_batch_builder import build_batch, build_value_batch
from tests.support.records import (
    GOLDEN,
    GOLDEN_RECORDS,
    built_by_kafka_python,
    give_snappy_to_kafka_python,
    record_lists,
    with_records,
)

PLAIN = "10 00 00 00 02 61 02 62 00"  # key a, value b
INT64_MAX = 2**63 - 1


def test_given_golden_bytes_when_read_then_the_records() -> None:
    records = list(iterate_records(bytes(4) + GOLDEN, 4))

    assert records == GOLDEN_RECORDS
    assert all(type(record) is Record for record in records)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_given_any_kind_of_buffer_when_read_then_keys_and_values_are_bytes(kind) -> None:
    records = list(iterate_records(kind(GOLDEN)))

    assert records == GOLDEN_RECORDS
    assert {type(record.value) for record in records} == {bytes, type(None)}


@pytest.mark.parametrize("codec", Codec)
@settings(max_examples=40)
@given(records=record_lists())
def test_given_a_batch_of_kafka_python_when_read_then_the_same_records(codec, records) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        give_snappy_to_kafka_python(monkeypatch)
        batch = built_by_kafka_python(records, codec)

    assert list(iterate_records(batch)) == records


def test_given_a_control_batch_when_read_then_its_key_is_version_and_type() -> None:
    marker = [Record(0, 9, b"\0\0\0\1", b"\0\0\0\0\0\7")]

    batch = build_batch(marker, is_control=True, is_transactional=True, producer_id=4)

    assert list(iterate_records(batch)) == marker


def test_given_a_delete_horizon_when_read_then_timestamps_are_still_base_plus_delta() -> None:
    tombstone = [Record(3, 1_700_000_000_000, b"key", None)]

    batch = build_batch(tombstone, last_offset_delta=9, delete_horizon_ms=1_800_000_000_000)

    assert list(iterate_records(batch)) == tombstone


UNSOUND = {
    "no record at all": "",
    "length runs past the batch": "14 00 00 00 02 61 02 62 00",
    "length is negative": "0f 00 00 00 02 61 02 62 00",
    "length is shorter than the fields": "0e 00 00 00 02 61 02 62 00",
    "length is longer than the fields": "12 00 00 00 02 61 02 62 00 00",
    "length is zero": "00 00 00 00 02 61 02 62 00",
    "length is overlong": "90 80 80 80 80 00 00 00 00 02 61 02 62 00",
    "length has more than 32 bits": "90 80 80 80 10 00 00 00 02 61 02 62 00",
    "key length is -2": "10 00 00 00 03 61 02 62 00",
    "value length is -2": "10 00 00 00 02 61 03 62 00",
    "key runs past the record": "10 00 00 00 7e 61 02 62 00",
    "key runs past 2 GiB": "18 00 00 00 fe ff ff ff 0f 02 62 00 00",
    "value runs past the record": "10 00 00 00 02 61 04 62 00",
    "value runs past the batch": "10 00 00 00 02 61 7e 62 00",
    "offset is negative": "10 00 00 01 02 61 02 62 00",
    "offset is past the batch's last": "10 00 00 02 02 61 02 62 00",
    "timestamp is overlong": "24 00 80808080808080808080 00 00 02 61 02 62 00",
    "header count is -1": "10 00 00 00 02 61 02 62 01",
    "header count is more than fits": "14 00 00 00 02 61 02 62 04 00 00",
    "header count is absurd": "18 00 00 00 02 61 02 62 fe ff ff ff 0f",
    "header name is null": "14 00 00 00 02 61 02 62 02 01 00",
    "header value length is -2": "16 00 00 00 02 61 02 62 02 02 78 03",
    "header value runs past the record": "16 00 00 00 02 61 02 62 02 02 78 04",
    "header is missing": "10 00 00 00 02 61 02 62 02",
    "bytes after the last record": PLAIN + "00",
    "one record too many": PLAIN + PLAIN,
    "cut inside": "10 00 00 00 02 61 02",
}


@pytest.mark.parametrize("hexadecimal", UNSOUND.values(), ids=UNSOUND)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_given_an_unsound_record_when_read_then_corrupt(hexadecimal: str, codec: Codec) -> None:
    payload = compress(codec, bytes.fromhex(hexadecimal))
    batch = b"\0" + with_records(payload, 1, attributes=codec)

    for read in (iterate_records, open_values):
        with pytest.raises(BatchCorruptError) as raised:
            list(read(batch, 1))
        assert raised.value.position == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [("00", "00"), ("02", "00"), ("02", "02"), ("00", "06")],  # zig-zag: 0 0, 1 0, 1 1, 0 3
)
def test_given_offsets_that_do_not_grow_when_read_then_corrupt(first: str, second: str) -> None:
    """R29: inner offsets are monotonic, and inside what the header says."""
    payload = bytes.fromhex(f"10 00 00 {first} 02 61 02 62 00 10 00 00 {second} 02 61 02 62 00")
    batch = with_records(payload, 2, last_offset_delta=2)

    for read in (
        lambda: list(iterate_records(batch)),
        lambda: list(open_values(batch)),
        lambda: max_timestamp_and_offset(batch, 0),
    ):
        with pytest.raises(BatchCorruptError, match="offset"):
            read()


def test_given_fewer_records_than_said_when_read_then_the_sound_ones_come_first() -> None:
    batch = with_records(bytes.fromhex(PLAIN), 2, attributes=0, record_count=1)
    lying = with_records(bytes.fromhex(PLAIN + "06 00 00 02 01 01 00"), 2)

    records = iterate_records(lying)

    assert next(records) == next(iterate_records(batch)) == Record(0, 1000, b"a", b"b")
    with pytest.raises(BatchCorruptError, match="after offset 0"):
        next(records)


def test_given_a_timestamp_that_leaves_int64_when_read_then_corrupt() -> None:
    payload = bytes.fromhex("22 00 feffffffffffffffff01 00 02 61 02 62 00")
    batch = with_records(payload, 1, base_timestamp=1)

    for read in (lambda: list(iterate_records(batch)), lambda: max_timestamp_and_offset(batch, 0)):
        with pytest.raises(BatchCorruptError, match="timestamp"):
            read()


def test_given_timestamps_at_the_ends_of_int64_when_read_then_they_are() -> None:
    payload = bytes.fromhex(PLAIN + "10 00 01 02 02 61 02 62 00")

    batch = with_records(payload, 2, base_timestamp=INT64_MAX, max_timestamp=INT64_MAX)

    assert [record.timestamp for record in iterate_records(batch)] == [INT64_MAX, INT64_MAX - 1]


def test_given_a_header_name_that_is_not_utf8_when_read_and_built_then_its_bytes_stay() -> None:
    payload = bytes.fromhex("16 00 00 00 02 61 02 62 02 02 ff 00")
    batch = with_records(payload, 1)

    records = list(iterate_records(batch))
    built = build_batch(records)

    assert records[0].headers == (("\udcff", b""),)
    assert built[61:] == payload


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@settings(max_examples=40)
@given(records=record_lists(gaps=True))
def test_given_a_batch_when_only_values_are_read_then_those_of_the_records(codec, records) -> None:
    batch = bytes(2) + build_batch(records, codec=codec)

    values = list(open_values(batch, 2))

    assert values == [(record.offset, record.value) for record in records]


def test_given_a_cap_when_a_batch_grows_past_it_then_too_large() -> None:
    batch = build_value_batch([bytes(1000)] * 100, 0, Codec.ZSTD)

    with pytest.raises(MessageTooLargeError):
        iterate_records(batch, size_bytes_max=50_000)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_given_damaged_compression_when_read_then_corrupt_at_the_batch(codec: Codec) -> None:
    payload = compress(codec, bytes.fromhex(PLAIN))
    batch = with_records(payload[:-1], 1, attributes=codec)

    with pytest.raises(BatchCorruptError) as raised:
        iterate_records(bytes(2) + batch, 2)

    assert raised.value.position == 2


@given(records=record_lists(gaps=True), codec=st.sampled_from([Codec.NONE, Codec.LZ4]))
def test_given_records_when_scanned_for_times_then_each_comes_in_log_order(records, codec) -> None:
    """R33"""
    last = records[-1].offset
    batch = bytes(3) + build_batch(records, codec=codec, last_offset_delta=last + 2)
    largest = max(records, key=lambda r: (r.timestamp, -r.offset))

    assert list(iterate_timestamps(batch, 3)) == [(r.timestamp, r.offset) for r in records]
    assert max_timestamp_and_offset(batch, 3) == (largest.timestamp, largest.offset)


def test_given_log_append_time_when_looked_up_then_by_the_batchs_time() -> None:
    batch = build_batch(
        GOLDEN_RECORDS,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp=77,
    )

    assert list(iterate_timestamps(batch)) == [(77, r.offset) for r in GOLDEN_RECORDS]
    assert max_timestamp_and_offset(batch, 0) == (77, 0)


def test_given_no_records_when_looked_up_then_none() -> None:
    batch = build_batch([], last_offset_delta=3, max_timestamp=77)

    assert list(iterate_timestamps(batch)) == []
    assert max_timestamp_and_offset(batch, 0) == (-1, -1)


@pytest.mark.parametrize("codec", Codec)
@settings(max_examples=40)
@given(records=record_lists(), data=st.data())
def test_given_a_mutated_batch_when_read_then_records_or_our_error(codec, records, data) -> None:
    payload = bytearray(build_batch(records, codec=codec)[61:])
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    batch = with_records(bytes(payload), len(records), attributes=codec)

    for read in (iterate_records, open_values, lambda b: [max_timestamp_and_offset(b, 0)]):
        try:
            count = len(list(read(batch)))
        except TidelogError:
            continue
        assert count <= len(records)


@given(payload=st.binary(max_size=120), count=st.integers(0, 17))
def test_given_random_bytes_for_records_when_read_then_records_or_our_error(
    payload: bytes, count: int
) -> None:
    batch = with_records(payload, max(count, 1), record_count=count)

    try:
        records = list(iterate_records(batch))
    except TidelogError:
        return

    assert len(records) == count
    assert list(open_values(batch)) == [(record.offset, record.value) for record in records]
    assert all(-(2**63) <= record.timestamp < 2**63 for record in records)
