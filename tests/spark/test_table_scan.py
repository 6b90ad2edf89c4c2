"""`scan`: the same tables as `spark.read`, by another way through Spark."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from protocol.compression import Codec
from tests.support.spark_broker import append, with_topic
from tests.support.spark_logs import EPOCH_MS, collected, rows_of, some_records, write_partition
from tidelog.segments.errors import OptionError, SegmentError
from tidelog.spark import scan

RECORDS = some_records(260)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    root = tmp_path_factory.mktemp("logs")
    write_partition(root, "web", 0, RECORDS, codec=Codec.ZSTD)
    write_partition(root, "web", 1, RECORDS[:150])
    return root


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("tidelog_segments", {"includeHeaders": True, "minPartitions": 5}),
        ("tidelog_segments", {"onCorrupt": "tag", "startingTimestamp": EPOCH_MS + 95_000}),
        ("tidelog_segments", {"schema": "offset bigint, key binary"}),
        ("tidelog_batches", {}),
    ],
)
def test_given_a_directory_when_scanned_then_rows_and_columns_are_those_of_the_source(
    spark, logs, name, options
):
    frame = scan(spark, str(logs), format=name, **options)

    reader = spark.read.format(name)
    if "schema" in options:
        reader = reader.schema(options.pop("schema"))
    source = reader.options(**options).load(str(logs))
    assert frame.schema == source.schema
    assert sorted(map(repr, frame.collect())) == sorted(map(repr, source.collect()))
    assert frame.count() == source.count() > 0


def test_given_topics_of_a_broker_when_scanned_then_those_that_are_there_at_the_call(spark, broker):
    topic = with_topic(broker.address, "scanned", RECORDS, [])

    frame = scan(spark, format="tidelog", broker=broker.address, subscribe=topic)
    append(broker.address, topic, 1, RECORDS[:10])

    assert collected(frame) == rows_of(RECORDS, topic, 0)


def test_given_no_records_when_scanned_then_an_empty_table(spark, tmp_path):
    write_partition(tmp_path, "web", 0, RECORDS[:10])

    frame = scan(spark, str(tmp_path), startingTimestamp=EPOCH_MS + 10_000,
                 startingOffsetsByTimestampStrategy="latest")  # fmt: skip

    assert (frame.count(), frame.columns[0]) == (0, "key")


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"format": "tidelog_segment"}, OptionError, "no format 'tidelog_segment'; there are tid"),
        ({"subscribes": "web"}, OptionError, "there is no option 'subscribes'; there are path"),
        ({"schema": "offset int"}, OptionError, "column 'offset' is of type bigint, not int"),
        ({"path": "/no/where"}, SegmentError, "/no/where is not there"),
    ],
)
def test_given_a_wrong_word_when_scanned_then_one_sentence(spark, logs, options, error, sentence):
    with pytest.raises(error, match=sentence):
        scan(spark, **{"path": str(logs), **options})


def test_given_a_file_that_is_gone_when_the_scan_is_run_then_it_says_what_is_lost(spark, tmp_path):
    write_partition(tmp_path, "web", 0, RECORDS)
    frame = scan(spark, str(tmp_path))
    first = min((tmp_path / "web-0").glob("*.log"))
    first.unlink()

    with pytest.raises(PySparkException, match="DataLossError"):
        frame.collect()
