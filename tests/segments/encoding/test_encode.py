"""Encode: byte for byte what `protocol` builds record by record, and read back by others."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from protocol.compression import Codec
from protocol.limits import INT32_MAX, INT64_MAX
from protocol.record_batch import check_batch, iterate_records
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import HEADER_BYTES, TimestampType
from tidelog.segments.columns import HEADERS, TYPES
from tidelog.segments.encoding import encode as encode_module
from tidelog.segments.encoding import encode_numba, encode_numpy
from tidelog.segments.encoding.encode import EncodedBatch, encode
from tidelog.segments.errors import OptionError

KERNELS = {"numba": encode_numba, "numpy": encode_numpy}
TYPE_OF = {name: TYPES[name] for name in ("offset", "timestamp", "key", "value", HEADERS)}
NOON_MS = int(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp() * 1_000)


@pytest.fixture(params=KERNELS)
def any_kernel(request, monkeypatch):
    monkeypatch.setattr(encode_module, "_kernel", lambda: KERNELS[request.param])


def table(records: list[tuple]) -> pa.RecordBatch:
    """Return records (offset, milliseconds, key, value, headers) as columns."""
    columns = list(zip(*records, strict=True)) or [()] * len(TYPE_OF)
    arrays = []
    for name, column in zip(TYPE_OF, columns, strict=True):
        if name == "timestamp":
            arrays.append(pa.array([each * 1_000 for each in column]).cast(TYPE_OF[name]))
        elif name == HEADERS:
            items = [[{"key": key, "value": value} for key, value in each] for each in column]
            arrays.append(pa.array(items, TYPE_OF[name]))
        else:
            arrays.append(pa.array(column, TYPE_OF[name]))
    return pa.RecordBatch.from_arrays(arrays, names=list(TYPE_OF))


def records_of(batch: EncodedBatch) -> list[tuple]:
    check_batch(batch.data)
    return [tuple(record) for record in iterate_records(batch.data, 0)]


values = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
rows = st.tuples(
    st.sampled_from([1, 1, 1, 2, 70, 10_000, INT32_MAX]),
    st.integers(-(10**9), 10**13) | st.just(-1),
    values,
    values,
    headers.map(tuple) | st.just(()),
)


@pytest.mark.usefixtures("any_kernel")
@settings(max_examples=60, deadline=None)
@given(
    made=st.lists(rows, max_size=30),
    codec=st.sampled_from([Codec.NONE, *Codec]),
    batch_bytes=st.sampled_from([1, 150, 1_000, 65_536]),
    skipped=st.integers(0, 3),
)
def test_given_any_records_when_encoded_then_batches_are_those_that_protocol_builds(
    made, codec, batch_bytes, skipped
):
    offset, records = 0, []
    for gap, time, key, value, record_headers in made:
        offset += gap
        records.append((offset, time, key, value, record_headers))

    wanted = records[skipped:]
    batches = list(encode(table(records).slice(skipped), codec=codec, batch_bytes=batch_bytes))

    assert [record for batch in batches for record in records_of(batch)] == wanted
    begin = 0
    for batch in batches:
        part = wanted[begin : begin + batch.record_count]
        built = build_batch(part, base_offset=part[0][0], codec=codec)
        assert bytes(batch.data) == built
        assert batch[:4] == (part[0][0], part[-1][0], len(part), max(each[1] for each in part))
        if codec == Codec.NONE and len(part) > 1:
            assert len(built) <= batch_bytes
        begin += len(part)


@pytest.mark.usefixtures("any_kernel")
@pytest.mark.parametrize("codec", Codec)
def test_given_batches_when_kafka_python_reads_them_then_it_finds_the_records(codec):
    records = [
        (n, NOON_MS + n, None if n % 7 == 0 else b"key %d" % n, b"value " * (n % 30), ())
        for n in range(500)
    ]
    records[3] = (*records[3][:4], (("name", b"x"), ("null", None)))
    data = b"".join(bytes(batch.data) for batch in encode(table(records), codec=codec))

    read = MemoryRecords(data)
    found = []
    while read.has_next():
        batch = read.next_batch()
        assert batch.validate_crc()
        found += [
            (each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
            for each in batch
        ]

    assert found == records


def test_given_many_records_when_encoded_then_both_kernels_write_the_same(monkeypatch):
    records = [
        (3 * n, NOON_MS + n % 17, b"k" * (n % 5), None if n % 11 == 0 else b"v" * (n % 999), ())
        for n in range(20_000)
    ]
    results = []
    for kernel in KERNELS.values():
        monkeypatch.setattr(encode_module, "_kernel", lambda kernel=kernel: kernel)
        batches = encode(table(records), batch_bytes=16_384)
        results.append([batch._replace(data=bytes(batch.data)) for batch in batches])

    assert results[0] == results[1]
    assert sum(batch.record_count for batch in results[0]) == len(records)
    assert max(len(batch.data) for batch in results[0]) <= 16_384
    fills = [len(batch.data) for batch in results[0][:-1]]
    assert sum(fills) / len(fills) > 0.9 * 16_384


def test_given_a_base_offset_when_encoded_then_offsets_follow_from_it():
    records = [(9 * n, 5, None, b"v", ()) for n in range(4)]

    batches = list(encode(table(records), base_offset=100, batch_bytes=HEADER_BYTES + 40))

    offsets = [record[0] for batch in batches for record in records_of(batch)]
    assert offsets == [100, 101, 102, 103]
    assert len(batches) > 1


def test_given_values_alone_when_encoded_then_the_rest_is_null_and_offsets_count_from_0():
    rows = pa.record_batch({"value": pa.array(["a", None]), "other": pa.array([1, 2])})

    (batch,) = encode(rows)

    assert records_of(batch) == [(0, -1, None, b"a", ()), (1, -1, None, None, ())]
    assert batch.max_timestamp == -1


def test_given_the_brokers_times_when_encoded_then_each_is_kept_and_said_to_be_the_brokers():
    times = [5, 5, 6, 7, 7]
    records = [(n, time, None, b"v", ()) for n, time in enumerate(times)]
    kinds = pa.array([1, 1, 1, 0, 0], pa.int32())

    batches = list(encode(table(records).append_column("timestampType", kinds)))

    assert [record[:2] for batch in batches for record in records_of(batch)] == [*enumerate(times)]
    types = [check_batch(batch.data).timestamp_type for batch in batches]
    assert types == [TimestampType.LOG_APPEND_TIME] * 2 + [TimestampType.CREATE_TIME]


def test_given_other_units_of_time_when_encoded_then_they_are_milliseconds():
    for unit, number in (("s", NOON_MS // 1000), ("ms", NOON_MS), ("ns", NOON_MS * 1_000_000 + 1)):
        time = pa.array([number, None], pa.timestamp(unit))
        (batch,) = encode(pa.record_batch({"value": pa.array([b"v", b"v"]), "timestamp": time}))
        assert [record[1] for record in records_of(batch)] == [NOON_MS, -1]


def test_given_a_leader_epoch_when_encoded_then_batches_have_it():
    (batch,) = encode(table([(0, 5, None, b"v", ())]), leader_epoch=7)

    assert check_batch(batch.data).leader_epoch == 7


def test_given_nothing_when_encoded_then_there_are_no_batches():
    assert list(encode(table([]))) == []


WRONG = {
    "no value": ({"key": pa.array([b"k"])}, "no column 'value'"),
    "numbers": ({"value": pa.array([1])}, "'value' is int64; it must be binary or string"),
    "times": (
        {"value": pa.array([b""]), "timestamp": pa.array([1])},
        "'timestamp' is int64; it must be a timestamp",
    ),
    "far times": (
        {"value": pa.array([b""]), "timestamp": pa.array([INT64_MAX], pa.timestamp("ms"))},
        "too far from 1970",
    ),
    "offsets": (
        {"value": pa.array([b"", b""]), "offset": pa.array([4, 4])},
        "each above the one before",
    ),
    "null offsets": (
        {"value": pa.array([b""]), "offset": pa.array([None], pa.int64())},
        "'offset' holds a null",
    ),
    "headers": ({"value": pa.array([b""]), HEADERS: pa.array(["x"])}, "must be a list of structs"),
    "nameless header": (
        {"value": pa.array([b""]), HEADERS: pa.array([[(None, b"")]], TYPES[HEADERS])},
        "a header has no name",
    ),
}


@pytest.mark.parametrize(("columns", "reason"), WRONG.values(), ids=WRONG)
def test_given_columns_that_are_no_records_when_encoded_then_the_error_says_why(columns, reason):
    with pytest.raises(OptionError, match=reason):
        list(encode(pa.record_batch(columns)))


def test_given_columns_of_all_kinds_when_encoded_then_the_kernel_was_compiled_once(monkeypatch):
    """For some seconds each: not again for arrays that may be written or not."""
    monkeypatch.setattr(encode_module, "_kernel", lambda: encode_numba)
    records = [(0, 5, b"k", b"v", (("n", None),)), (1, 6, None, None, ())]
    values = pa.array([b"a", None])
    times = pa.array([1, 2], pa.timestamp("ms"))

    for rows in (table(records), pa.record_batch({"value": values, "timestamp": times})):
        assert sum(batch.record_count for batch in encode(rows)) == 2
        assert sum(batch.record_count for batch in encode(rows.slice(1), base_offset=7)) == 1

    assert len(encode_numba.encode_records.signatures) == 1
    assert len(encode_numba.encode_headers.signatures) == 1
