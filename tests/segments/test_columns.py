"""Columns: names, types and values as Spark's own Kafka source has them."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import TimestampType
from tidelog.segments import kernel
from tidelog.segments.batch_table import walk
from tidelog.segments.columns import COLUMNS, HEADERS, arrow_schema, binary_array, to_record_batch
from tidelog.segments.errors import OptionError
from tidelog.segments.inflate import inflate

NOON = datetime(2026, 11, 22, 12, 0, 0, 250_000, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1_000)


def rows_of(data: bytes, columns=(*COLUMNS, HEADERS)) -> pa.RecordBatch:
    walked = walk(data)
    inflated = inflate(data, walked.table)
    spans, bad = kernel.decode(inflated, walked.table)
    assert bad is None
    headers, bad = kernel.decode_headers(inflated, spans)
    assert bad is None
    return to_record_batch(
        spans, walked.table, inflated.buffer, headers,
        topic="logs", partition=3, columns=columns,
    )  # fmt: skip


def test_given_records_when_made_columns_then_names_types_and_values_are_sparks():
    data = build_batch(
        [
            (5, NOON_MS, b"key", b"value", (("name", b"x"), ("null", None))),
            (7, NOON_MS + 1, None, None),
        ],
        base_offset=5,
    )

    rows = rows_of(data)

    assert rows.schema == pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ]
    )
    first, second = rows.to_pylist()
    assert first == {
        "key": b"key",
        "value": b"value",
        "topic": "logs",
        "partition": 3,
        "offset": 5,
        "timestamp": NOON,
        "timestampType": 0,
        "headers": [{"key": "name", "value": b"x"}, {"key": "null", "value": None}],
    }
    assert (second["key"], second["value"], second["offset"], second["headers"]) == (
        None, None, 7, [],
    )  # fmt: skip


def test_given_the_brokers_time_when_made_columns_then_each_record_has_it_and_says_so():
    data = build_batch(
        [(0, 5, b"k", b"v"), (1, NOON_MS, b"k", b"v")],
        timestamp_type=TimestampType.LOG_APPEND_TIME,
    )

    rows = rows_of(data, ["timestamp", "timestampType"])

    assert rows.to_pylist() == [{"timestamp": NOON, "timestampType": 1}] * 2


def test_given_some_columns_when_made_then_only_those_in_that_order():
    data = build_batch([(0, 5, b"k", b"v")])

    assert rows_of(data, ["offset", "key"]).to_pylist() == [{"offset": 0, "key": b"k"}]


def test_given_no_records_when_made_columns_then_they_are_empty_and_typed():
    rows = rows_of(b"")

    assert rows.num_rows == 0
    assert rows.schema == arrow_schema((*COLUMNS, HEADERS))


def test_given_a_column_that_is_not_there_when_asked_for_then_the_error_names_those_that_are():
    with pytest.raises(OptionError, match=r"no column 'ofset'; there are key, value"):
        arrow_schema(["ofset"])


def test_given_spans_with_nulls_and_empty_ones_when_made_an_array_then_they_are_told_apart():
    buffer = np.frombuffer(b"abcdef", dtype=np.uint8)

    array = binary_array(buffer, np.array([0, 2, 3, 6]), np.array([2, 2, -1, 6]))

    array.validate(full=True)
    assert array.to_pylist() == [b"ab", b"", None, b""]


def test_given_times_that_microseconds_cannot_say_when_made_columns_then_the_last_that_they_can():
    times = [10**16, -(10**16), -1, 0]
    data = b"".join(
        build_batch([(n, time, b"k", b"v")], base_offset=n) for n, time in enumerate(times)
    )

    found = rows_of(data, ["timestamp"])["timestamp"].cast(pa.int64()).to_pylist()

    farthest = (2**63 - 1) // 1000 * 1000
    assert found == [farthest, -farthest, -1000, 0]
