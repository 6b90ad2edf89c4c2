"""RecordBatchBuilder: what we build is what Kafka would have written, and others can read it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import record_batch_builder
from protocol.compression import Codec
from protocol.errors import MessageTooLargeError
from protocol.record_batch import (
    BatchHeader,
    Record,
    TimestampType,
    check_batch,
    check_produced_batch,
    iterate_batches,
    iterate_records,
    parse_header,
)
from protocol.record_batch_builder import (
    SMALL,
    RecordBatchBuilder,
    build_batch,
    build_value_batch,
)
from tests.support import kafka_logs
from tests.support.records import (
    GOLDEN,
    GOLDEN_RECORDS,
    built_by_kafka_python,
    give_snappy_to_kafka_python,
    read_by_kafka_python,
    record_lists,
)

VALUE_SIZES = st.sampled_from([0, 1, 56, 57, 58, 59, 63, 64, 200, 2047, 2048, 8183, 8192, 70_000])


def filled(records: list[Record]) -> RecordBatchBuilder:
    builder = RecordBatchBuilder()
    for _, timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder


def test_given_the_golden_records_when_built_then_the_golden_bytes() -> None:
    built = build_batch(GOLDEN_RECORDS, leader_epoch=0)

    assert built == GOLDEN
    assert filled(GOLDEN_RECORDS).build(leader_epoch=0) == GOLDEN


def test_given_plain_tuples_when_built_then_the_same() -> None:
    built = build_batch([(0, 1, b"k", b"v"), (1, 2, None, b"w", ())])

    assert built == build_batch([Record(0, 1, b"k", b"v"), Record(1, 2, None, b"w")])


def test_given_no_options_when_built_then_a_producers_defaults() -> None:
    header = parse_header(build_batch(GOLDEN_RECORDS))

    assert header._replace(crc=0, batch_length=0) == BatchHeader(
        base_offset=0,
        batch_length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=2,
        base_timestamp=1_700_000_000_000,
        max_timestamp=1_700_000_000_005,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=3,
    )


def test_given_all_options_when_built_then_each_is_in_the_header() -> None:
    records = [record._replace(offset=record.offset + 40) for record in GOLDEN_RECORDS]

    built = build_batch(
        records,
        base_offset=38,
        codec=Codec.ZSTD,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        leader_epoch=6,
        producer_id=7,
        producer_epoch=8,
        base_sequence=9,
        is_transactional=True,
        is_control=True,
        last_offset_delta=11,
        max_timestamp=12,
        delete_horizon_ms=13,
    )

    header = check_batch(built)
    assert header.attributes == 0b1111100
    assert header[:1] + header[2:4] == (38, 6, 2)
    assert header[6:] == (11, 13, 12, 7, 8, 9, 3)
    assert [record.offset for record in iterate_records(built)] == [40, 41, 42]


@pytest.mark.parametrize("codec", Codec)
@settings(max_examples=40)
@given(records=record_lists())
def test_given_any_records_when_built_then_kafka_python_reads_them(codec, records) -> None:
    built = filled(records).build(codec=codec)

    with pytest.MonkeyPatch.context() as monkeypatch:
        give_snappy_to_kafka_python(monkeypatch)
        assert list(read_by_kafka_python(built)) == records
    assert check_produced_batch(built).codec == codec
    assert build_batch(records, codec=codec) == built


@given(records=record_lists())
def test_given_any_records_when_built_then_kafka_pythons_bytes(records: list[Record]) -> None:
    theirs = built_by_kafka_python(records, producer_id=3, producer_epoch=2, base_sequence=1)

    built = filled(records).build(leader_epoch=0, producer_id=3, producer_epoch=2, base_sequence=1)

    assert built == theirs


@given(
    records=record_lists(gaps=True),
    codec=st.sampled_from(Codec),
    base_offset=st.integers(0, 2**62),
    beyond=st.integers(0, 3),
    horizon=st.none() | st.integers(0, 2**45),
)
def test_given_offsets_with_gaps_when_built_then_they_come_back(
    records, codec, base_offset, beyond, horizon
) -> None:
    records = [record._replace(offset=base_offset + record.offset) for record in records]
    span = records[-1].offset - base_offset + beyond

    built = build_batch(
        records,
        base_offset=base_offset,
        codec=codec,
        last_offset_delta=span,
        delete_horizon_ms=horizon,
    )

    header = check_batch(built)
    assert (header.base_offset, header.last_offset_delta) == (base_offset, span)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert header.has_delete_horizon == (horizon is not None)
    assert list(iterate_records(built)) == records


@pytest.mark.parametrize("partition", ["shapes-0", "compacted-idempotent-0", "compacted-txn-0"])
def test_given_what_kafka_wrote_when_built_again_then_the_same_bytes(partition: str) -> None:
    """Sequences, epochs, markers, delete horizons and emptied batches included."""
    built = 0
    for segment in kafka_logs.segments(partition):
        for position, header in iterate_batches(segment):
            if header.codec != Codec.NONE:
                continue

            again = build_batch(
                list(iterate_records(segment, position)),
                base_offset=header.base_offset,
                leader_epoch=header.leader_epoch,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=header.is_transactional,
                is_control=header.is_control,
                last_offset_delta=header.last_offset_delta,
                max_timestamp=header.max_timestamp,
                delete_horizon_ms=header.base_timestamp if header.has_delete_horizon else None,
            )

            assert again == segment[position : position + header.size_bytes]
            built += 1
    assert built


def test_given_a_builder_when_filled_then_size_is_what_comes_out() -> None:
    builder = RecordBatchBuilder()
    sizes = [builder.size_bytes]

    for _, timestamp, key, value, headers in GOLDEN_RECORDS:
        sizes.append(builder.append(timestamp, key, value, headers))
        assert len(builder.build()) == sizes[-1] == builder.size_bytes

    assert sizes == [61, 83, 90, 97]
    assert builder.count == 3


@pytest.mark.parametrize("codec", Codec)
def test_given_views_when_built_then_as_from_bytes(codec: Codec) -> None:
    text = bytes(range(256)) * 3
    views = [memoryview(bytearray(text))[i : 2 * i] for i in (0, 1, 60, 300)]

    from_views = build_value_batch(views, 5, codec)

    assert from_views == build_value_batch([bytes(view) for view in views], 5, codec)
    record = [(0, 5, views[3], views[2], (("h", views[1]),))]
    assert build_batch(record) == build_batch(
        [(0, 5, bytes(views[3]), bytes(views[2]), (("h", bytes(views[1])),))]
    )


@pytest.mark.parametrize("codec", Codec)
@settings(max_examples=40)
@given(sizes=st.lists(VALUE_SIZES, min_size=1, max_size=70), timestamp_ms=st.integers(0, 2**50))
def test_given_values_when_built_fast_then_the_same_bytes_as_by_records(
    codec, sizes, timestamp_ms
) -> None:
    values = [bytes([i]) * size for i, size in enumerate(sizes)]

    batch = build_value_batch(values, timestamp_ms, codec)

    records = [(i, timestamp_ms, None, value) for i, value in enumerate(values)]
    assert batch == build_batch(records, codec=codec)
    assert type(batch) is bytearray
    batch.append(0)  # no view of it is left behind


@pytest.mark.parametrize("count", [1, 63, 64, 65, 2047, 2049, 8191, 8192, 8193, 20_000])
def test_given_a_count_at_a_border_when_built_fast_then_the_same_bytes(count: int) -> None:
    values = [b"%d" % i for i in range(count)]

    batch = build_value_batch(values, 77)

    assert batch == build_batch((i, 77, None, value) for i, value in enumerate(values))
    assert check_produced_batch(batch).record_count == count


@pytest.mark.parametrize("first", [0, 64, 8192])
def test_given_every_small_size_when_built_fast_then_the_same_bytes(first: int) -> None:
    values = [b""] * first + [bytes(size) for size in range(SMALL + 2)]
    values += values[:first:-1]  # 0 to 63 after a delta of more bytes, and large after one of few

    batch = build_value_batch(values, 77)

    assert batch == build_batch((i, 77, None, value) for i, value in enumerate(values))


def test_given_no_tables_yet_when_built_fast_then_no_call_for_each_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first batch is built on an event loop, and thousands of calls stalled it for 5 ms."""
    record_batch_builder._value_heads.cache_clear()
    record_batch_builder._value_tails.cache_clear()
    for name in ("encode_varint", "size_of_varint"):
        monkeypatch.setattr(record_batch_builder, name, lambda _: pytest.fail("a call for a size"))

    batch = build_value_batch([b"value"] * 100, 77)

    assert batch == build_batch((i, 77, None, b"value") for i in range(100))


def test_given_golden_values_when_built_fast_then_golden_bytes() -> None:
    batch = build_value_batch([b"one", b"", b"three"], 0x0102030405060708)

    assert bytes(batch).hex() == (
        "0000000000000000" "0000004e" "ffffffff" "02" "7696ae83" "0000" "00000002"
        "0102030405060708" "0102030405060708" "ffffffffffffffff" "ffff" "ffffffff" "00000003"
        "120000000106" "6f6e65" "00"
        "0c0000020100" "00"
        "16000004010a" "7468726565" "00"
    )  # fmt: skip
    assert list(read_by_kafka_python(bytes(batch))) == list(iterate_records(batch))


def test_given_no_records_when_built_then_value_error() -> None:
    for build in (RecordBatchBuilder().build, lambda: build_batch([])):
        with pytest.raises(ValueError, match="batch"):
            build()
    with pytest.raises(ValueError, match="0 values"):
        build_value_batch([], 0)


@pytest.mark.parametrize(
    ("records", "options"),
    [
        ([(0, 0, None, b""), (0, 0, None, b"")], {}),
        ([(1, 0, None, b""), (0, 0, None, b"")], {}),
        ([(4, 0, None, b"")], {"base_offset": 5}),
        ([(4, 0, None, b"")], {"last_offset_delta": 3}),
        ([(2**31, 0, None, b"")], {}),
        ([(0, 2**63 - 1, None, b""), (1, -2, None, b"")], {}),
        ([], {"last_offset_delta": -1}),
    ],
)
def test_given_offsets_or_times_that_do_not_fit_when_built_then_value_error(
    records, options
) -> None:
    with pytest.raises(ValueError, match=r"offset|int"):
        build_batch(records, **options)


def test_given_more_than_a_batch_may_hold_when_built_then_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_batch_builder, "BATCH_BYTES_MAX", 1000)

    for build in (
        lambda: build_value_batch([bytes(500)] * 2, 0),
        lambda: build_batch([(0, 0, None, bytes(1000))]),
    ):
        with pytest.raises(MessageTooLargeError):
            build()
    assert len(build_value_batch([bytes(500)], 0)) < 1000
