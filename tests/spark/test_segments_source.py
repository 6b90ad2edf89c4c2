"""`tidelog_segments` as a table: options, columns, filters, and what is damaged or gone."""

from __future__ import annotations

import importlib.util

import pytest
from pyspark.errors import PySparkException

from protocol.compression import Codec
from tests.support.spark_logs import (
    EPOCH_MS,
    collected,
    rows_of,
    some_records,
    write_checkpoint,
    write_partition,
    write_segment,
)

RECORDS = some_records(260)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Two topics, three partitions; segments of 100 records, batches of 10, each codec."""
    root = tmp_path_factory.mktemp("logs")
    write_partition(root, "web", 0, RECORDS, codec=Codec.ZSTD)
    write_partition(root, "web", 1, RECORDS[:150], codec=Codec.LZ4)
    write_partition(root, "ssh", 0, RECORDS[40:90])
    return root


def load(spark, root, schema=None, **options):
    reader = spark.read.format("tidelog_segments").options(**options)
    return (reader if schema is None else reader.schema(schema)).load(str(root))


def test_given_a_directory_when_read_then_all_records_with_kafkas_columns(spark, logs):
    frame = load(spark, logs, includeHeaders="true")

    rows = collected(frame)
    headers = frame.where("topic = 'ssh' AND offset IN (40, 41)").orderBy("offset").collect()

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert rows == sorted(
        rows_of(RECORDS, "web", 0)
        + rows_of(RECORDS[:150], "web", 1)
        + rows_of(RECORDS[40:90], "ssh", 0)
    )
    assert [row.headers for row in headers] == [[], [("n", b"41"), ("null", None)]]


def test_given_options_of_kafkas_source_when_read_then_these_offsets_in_so_many_tasks(spark, logs):
    frame = load(
        spark, logs, assign='{"web":[0,1]}', startingOffsets='{"web":{"0":95,"1":-2}}',
        endingTimestamp=str(EPOCH_MS + 120_000), minPartitions="7", failOnDataLoss="false",
        isolation="read_committed", checkCrc="false",
    )  # fmt: skip

    rows = collected(frame)

    assert rows == rows_of(RECORDS[95:120], "web", 0) + rows_of(RECORDS[:120], "web", 1)
    assert frame.rdd.getNumPartitions() >= 7


def test_given_a_schema_with_fewer_columns_when_read_then_these_in_its_order(spark, logs):
    frame = load(spark, logs, "offset bigint, headers array<struct<key:string,value:binary>>",
                 subscribe="ssh")  # fmt: skip

    rows = frame.orderBy("offset").collect()

    assert frame.columns == ["offset", "headers"]
    assert [row.offset for row in rows] == list(range(40, 90))
    assert [len(row.headers) for row in rows] == [2 * (n % 2) for n in range(40, 90)]


@pytest.mark.parametrize(
    ("schema", "options", "sentence"),
    [
        (None, {"subscribes": "web"}, "there is no option 'subscribes'; there are path, subscribe"),
        (None, {"subscribe": "none"}, "none is not there; there is ssh, web"),
        (None, {"startingOffsets": "latest"}, "a batch query cannot begin at the latest offset"),
        ("offset int", {}, "column 'offset' is of type bigint, not int"),
        ("key binary, corrupt string", {}, "there is no column 'corrupt'; there are key, value"),
    ],
)
def test_given_a_wrong_option_or_column_when_read_then_one_sentence(
    spark, logs, schema, options, sentence
):
    with pytest.raises(PySparkException, match=sentence):
        load(spark, logs, schema, **options).collect()


def test_given_no_path_or_a_wrong_one_when_read_then_one_sentence(spark, tmp_path):
    with pytest.raises(PySparkException, match="option path is missing"):
        spark.read.format("tidelog_segments").load()
    with pytest.raises(PySparkException, match="nowhere is not there"):
        load(spark, tmp_path / "nowhere").collect()


def test_given_a_live_directory_when_read_then_up_to_the_high_watermark(spark, tmp_path):
    write_partition(tmp_path, "web", 0, RECORDS[:50])
    write_partition(tmp_path, "web", 1, RECORDS[:10])
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {("web", 0): 34, ("web", 1): 0})
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {("web", 0): 5})

    assert collected(load(spark, tmp_path)) == rows_of(RECORDS[5:34], "web", 0)
    assert load(spark, tmp_path, subscribePattern="x.*").count() == 0


@pytest.fixture
def damaged(tmp_path):
    """A partition whose batch of offsets 20 to 29 has a wrong byte, and whose end is torn."""
    [path] = write_partition(tmp_path, "web", 0, RECORDS[:60])
    data = bytearray(path.read_bytes())
    data[data.index(b"value 24")] ^= 1
    path.write_bytes(data[:-5])
    return tmp_path


def test_given_damage_when_read_then_it_fails_or_is_skipped_or_tagged(spark, damaged):
    sound = rows_of(RECORDS[:20] + RECORDS[30:50], "web", 0)

    with pytest.raises(PySparkException, match=r"is damaged at byte \d+ \(offsets 20 to 29\)"):
        load(spark, damaged).collect()
    assert collected(load(spark, damaged, onCorrupt="skip")) == sound
    tagged = load(spark, damaged, onCorrupt="tag")
    [wound] = tagged.where("corrupt IS NOT NULL").collect()
    assert (wound.topic, wound.partition, wound.offset, wound.value) == ("web", 0, 20, None)
    assert "CRC" in wound.corrupt
    assert collected(tagged.where("corrupt IS NULL")) == sound
    assert [row.corrupt is None for row in load(
        spark, damaged, "corrupt string", onCorrupt="tag"
    ).collect()].count(False) == 1  # fmt: skip


def test_given_push_down_on_or_off_when_filtered_then_the_same_rows_and_fewer_reads(spark, damaged):
    write_partition(damaged, "ssh", 1, RECORDS[:40])
    at_ms = EPOCH_MS + 35_000
    conditions = [
        "topic = 'web' AND offset BETWEEN 33 AND 35",
        f"timestamp >= timestamp_millis({at_ms}) AND partition = 0",
        f"timestamp > timestamp_micros({at_ms}000 - 1) AND timestamp <= timestamp_millis({at_ms})",
        "partition IN (1, 2) AND (offset = 1 OR offset = 5) AND value IS NOT NULL",
    ]
    name = "spark.sql.python.filterPushdown.enabled"
    assert spark.conf.get(name) == "true"
    pushed = [collected(load(spark, damaged).where(each)) for each in conditions]
    spark.conf.set(name, "false")
    try:
        plain = load(spark, damaged, onCorrupt="skip")
        not_pushed = [collected(plain.where(each)) for each in conditions]
        with pytest.raises(PySparkException, match="is damaged"):
            collected(load(spark, damaged).where(conditions[0]))
    finally:
        spark.conf.set(name, "true")

    assert pushed == not_pushed
    assert [len(rows) for rows in pushed] == [3, 15, 2, 2]


def test_given_retention_while_a_query_runs_when_read_then_it_fails_or_goes_on(spark, tmp_path):
    first, *_ = write_partition(tmp_path, "web", 0, RECORDS[:200])
    strict = load(spark, tmp_path)
    lenient = load(spark, tmp_path, failOnDataLoss="false")
    for planned in (strict, lenient):
        assert planned.rdd.getNumPartitions() == 2  # so it is planned: the tasks come later

    first.unlink()

    with pytest.raises(PySparkException, match="DataLossError"):
        strict.rdd.count()
    assert sorted(row.offset for row in lenient.rdd.collect()) == list(range(100, 200))


def test_given_no_pandas_when_read_then_it_is_not_missed(spark, logs):
    assert importlib.util.find_spec("pandas") is None  # as in all tests here, and in the workers

    table = load(spark, logs, subscribe="ssh").toArrow()

    assert table.column("offset").to_pylist() == list(range(40, 90))


def test_given_one_segment_file_when_read_then_its_records(spark, tmp_path):
    path = write_segment(tmp_path / "web-7", RECORDS[:15])

    assert collected(load(spark, path)) == rows_of(RECORDS[:15], "web", 7)
