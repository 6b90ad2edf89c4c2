"""SinkRows: where rows go, by the rules of Kafka's producers; and which rows no topic takes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from protocol.compression import Codec
from tidelog.client.partitioner import Partitioner
from tidelog.segments.errors import OptionError
from tidelog.spark.errors import SinkError
from tidelog.spark.sink_options import SinkOptions, check_columns, parse_sink_options
from tidelog.spark.sink_rows import SinkRows

NOW_US = 1_790_000_000_123_456


def sink_rows(topic: str | None = "logs", *, count: int = 3, turn: int = 0) -> SinkRows:
    return SinkRows(topic, lambda _: count, lambda: NOW_US, turn)


def divided(made: SinkRows, **columns: pa.Array) -> dict[str, list[object]]:
    """Return the values of each partition's rows."""
    found = made.divided(pa.RecordBatch.from_pydict(columns))
    return {str(part.partition): part.rows.column("value").to_pylist() for part in found}


@given(
    keys=st.lists(st.none() | st.binary(max_size=9), min_size=1, max_size=40),
    is_text=st.booleans(),
    count=st.integers(1, 7),
)
def test_given_keys_when_divided_then_kafkas_partitioner_would_put_them_there_in_order(
    keys, is_text, count
):
    if is_text:
        keys = [None if key is None else key.hex() for key in keys]
    numbers = list(range(len(keys)))
    kind = pa.string() if is_text else pa.binary()
    values = pa.array([str(number) for number in numbers])
    expected: dict[str, list[object]] = {}
    for key, number in zip(keys, numbers, strict=True):
        data = key.encode() if isinstance(key, str) else key
        partition = 5 % count if key is None else Partitioner().partition(data, count)
        expected.setdefault(f"logs-{partition}", []).append(str(number))

    found = divided(sink_rows(count=count, turn=5), key=pa.array(keys, kind), value=values)

    assert found == expected


def test_given_a_partition_column_when_divided_then_it_wins_and_null_leaves_it_to_the_key():
    found = divided(
        sink_rows(),
        key=pa.array([b"k", b"k", None]),
        value=pa.array(["a", "b", "c"]),
        partition=pa.array([1, None, None], pa.int32()),
    )

    assert Partitioner().partition(b"k", 3) == 2
    assert found == {"logs-0": ["c"], "logs-1": ["a"], "logs-2": ["b"]}


def test_given_batches_without_keys_when_divided_then_partitions_take_turns():
    made = sink_rows(count=2, turn=1)

    assert [list(divided(made, value=pa.array(["a", "b"]))) for _ in range(3)] == [
        ["logs-1"], ["logs-0"], ["logs-1"],
    ]  # fmt: skip


def test_given_no_rows_when_divided_then_there_are_no_partitions():
    assert divided(sink_rows(), value=pa.array([], pa.string())) == {}


def test_given_a_topic_column_when_divided_then_each_row_goes_to_its_own_unless_one_is_told():
    columns = {"value": pa.array(["a", "b", "c"]), "topic": pa.array(["x", "y", "x"])}

    assert divided(sink_rows(None, count=1), **columns) == {"x-0": ["a", "c"], "y-0": ["b"]}
    assert divided(sink_rows("z", count=1), **columns) == {"z-0": ["a", "b", "c"]}


def test_given_no_time_when_divided_then_it_is_now_and_what_is_not_stored_is_left_out():
    time = pa.array([5, None], pa.timestamp("us", tz="America/Lima"))  # the session's zone
    rows = pa.RecordBatch.from_pydict(
        {"value": pa.array(["a", "b"]), "timestamp": time, "offset": pa.array([7, 8])}
    )

    (part,) = sink_rows(count=1).divided(rows)

    assert part.rows.schema.names == ["value", "timestamp"]
    assert part.rows.column("timestamp").cast(pa.int64()).to_pylist() == [5, NOW_US]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"partition": pa.array([3], pa.int32())}, "no partition 3 of topic x: it has 0 to 2"),
        ({"topic": pa.array([None], pa.string())}, "a row has no topic"),
    ],
)
def test_given_a_row_without_a_place_when_divided_then_one_sentence_says_so(columns, sentence):
    columns = {"topic": pa.array(["x"]), "value": pa.array(["v"]), **columns}

    with pytest.raises(SinkError, match=sentence):
        divided(sink_rows(None), **columns)


def test_given_options_in_any_case_when_parsed_then_they_are_taken_and_sparks_own_passed_over():
    options = parse_sink_options(
        {"BROKER": "h:1", "Topic": "t", "compression": "ZSTD", "checkpointLocation": "/c"}
    )

    assert options == SinkOptions(broker="h:1", topic="t", codec=Codec.ZSTD)


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"broker": "h", "topics": "t"}, "no option 'topics'; there are broker, topic, compr"),
        (
            {"broker": "h", "compression": "lzo"},
            "must be none, gzip, snappy, lz4 or zstd, not 'lzo'",
        ),
        ({"topic": "t"}, "option broker is missing"),
    ],
)
def test_given_a_bad_option_when_parsed_then_one_sentence_says_what_is_allowed(raw, sentence):
    with pytest.raises(OptionError, match=sentence):
        parse_sink_options(raw)


@pytest.mark.parametrize(
    ("columns", "topic", "sentence"),
    [
        ({"text": StringType()}, "t", "takes no column 'text'; it takes key, value, topic"),
        ({"value": IntegerType()}, "t", "column 'value' must be binary or string, not int"),
        ({"key": StringType()}, "t", "column 'value' is missing"),
        ({"value": StringType()}, None, "give option topic, or a column 'topic'"),
    ],
)
def test_given_columns_that_make_no_records_when_checked_then_one_sentence_says_so(
    columns, topic, sentence
):
    schema = StructType([StructField(name, kind) for name, kind in columns.items()])

    with pytest.raises(OptionError, match=sentence):
        check_columns(SinkOptions(broker="h", topic=topic), schema)
