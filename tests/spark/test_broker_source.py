"""`tidelog` with Spark: topics as tables and streams, and frames and streams to topics."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException

from tests.support.running_broker import BrokerProcess
from tests.support.spark_broker import append, with_topic
from tests.support.spark_logs import EPOCH_MS, collected, rows_of, some_records
from tidelog.client import Client

RECORDS = some_records(300)


def load(spark, address, schema=None, **options):
    frames = spark.read.format("tidelog").options(broker=address, **options)
    return (frames if schema is None else frames.schema(schema)).load()


def stream(spark, address, **options):
    options = {"startingOffsets": "earliest", **options}
    return spark.readStream.format("tidelog").options(broker=address, **options).load()


def into_memory(frame, name, **trigger):
    return frame.writeStream.format("memory").queryName(name).trigger(**trigger)


def wait_for_batch(query, number):
    """Wait until a micro-batch has been committed."""
    while query.lastProgress is None or query.lastProgress["batchId"] < number:
        assert not query.awaitTermination(0.1), "the query has ended"


def messages(address, topic):
    """Return what a client reads: (partition, key, value, headers, time) by partition."""
    with Client(address) as client:
        found = sorted(client.messages(topic), key=lambda each: (each.partition, each.offset))
    return [(m.partition, m.key, m.value, m.headers, m.timestamp_ms) for m in found]


def test_given_topics_when_read_then_all_records_with_kafkas_columns(spark, broker):
    topic = with_topic(broker.address, "table", RECORDS, RECORDS[:50])

    frame = load(spark, broker.address, subscribe=topic, includeHeaders="true")
    chosen = load(
        spark,
        broker.address,
        "offset bigint, headers array<struct<key:string,value:binary>>",
        assign=json.dumps({topic: [1]}),
    )
    late = f"partition = 0 AND offset >= 3 AND timestamp < timestamp_millis({EPOCH_MS + 6_000})"

    assert collected(frame) == sorted(rows_of(RECORDS, topic, 0) + rows_of(RECORDS[:50], topic, 1))
    assert [row.offset for row in frame.where(late).collect()] == [3, 4, 5]
    assert [(row.offset, len(row.headers)) for row in chosen.where("offset > 47").collect()] == [
        (48, 0),
        (49, 2),
    ]


def test_given_a_limit_when_streamed_then_ranges_are_exact_and_a_restart_goes_on(
    spark, broker, tmp_path
):
    topic = with_topic(broker.address, "limited", RECORDS[:200], RECORDS[:100])
    frame = stream(spark, broker.address, subscribe=topic, maxOffsetsPerTrigger="120")
    rows = []

    def run():
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: rows.append(collected(batch)))
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [
            json.loads(each["sources"][0]["endOffset"])
            for each in query.recentProgress
            if each["numInputRows"]
        ]

    first = run()
    append(broker.address, topic, 0, RECORDS[200:])
    second = run()

    assert first == [
        {topic: {"0": 80, "1": 40}}, {topic: {"0": 160, "1": 80}}, {topic: {"0": 200, "1": 100}},
    ]  # fmt: skip
    assert second == [{topic: {"0": 300, "1": 100}}]
    assert [len(each) for each in rows] == [120, 120, 60, 100]
    assert sorted(row for each in rows for row in each) == sorted(
        rows_of(RECORDS, topic, 0) + rows_of(RECORDS[:100], topic, 1)
    )


def test_given_a_broker_killed_in_mid_stream_when_it_is_back_then_nothing_is_lost_or_doubled(
    spark, tmp_path
):
    records = some_records(1_000)
    with BrokerProcess(tmp_path) as broker:
        with_topic(broker.address, "logs", records[:600], records[:600])
        frame = stream(spark, broker.address, subscribe="logs", maxOffsetsPerTrigger="200")
        query = into_memory(frame, "killed", processingTime="0 seconds").start()
        wait_for_batch(query, 0)
        broker.kill()
        broker.start()
        append(broker.address, "logs", 0, records[600:])
        query.processAllAvailable()
        query.stop()

    assert collected(spark.table("killed")) == rows_of(records, "logs", 0) + rows_of(
        records[:600], "logs", 1
    )


def test_given_a_frame_when_written_then_a_client_finds_its_rows(spark, broker):
    with_topic(broker.address, "written-a", [], [])
    with_topic(broker.address, "written-b", [])
    frame = spark.sql(
        "SELECT * FROM VALUES"
        " ('k', cast('v' AS binary), 'written-a', 1, timestamp_millis(1790000000123),"
        "  array(named_struct('key', 'n', 'value', cast('x' AS binary)))),"
        " (null, null, 'written-b', null, timestamp_millis(5), null)"
        " AS rows(key, value, topic, partition, timestamp, headers)"
    )

    frame.write.format("tidelog").option("broker", broker.address).mode("append").save()

    assert messages(broker.address, "written-a") == [
        (1, b"k", b"v", (("n", b"x"),), 1_790_000_000_123)
    ]
    assert messages(broker.address, "written-b") == [(0, None, None, (), 5)]


def test_given_a_stream_when_written_then_the_topic_has_each_row_once_and_keys_keep_their_order(
    spark, broker, tmp_path
):
    source = with_topic(broker.address, "piped-from", RECORDS)
    target = with_topic(broker.address, "piped-to", [], [], [])
    frame = stream(spark, broker.address, subscribe=source, maxOffsetsPerTrigger="170",
                   includeHeaders="true")  # fmt: skip

    (
        frame.drop("partition").writeStream.format("tidelog")
        .options(broker=broker.address, topic=target, compression="lz4")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True).start().awaitTermination()
    )  # fmt: skip

    found = [each[1:] for each in messages(broker.address, target)]
    written = [(each.key, each.value, each.headers, each.timestamp) for each in RECORDS]
    assert sorted(found, key=repr) == sorted(written, key=repr)
    for key in {record.key for record in RECORDS if record.key}:
        assert [each for each in found if each[0] == key] == [e for e in written if e[0] == key]


@pytest.mark.parametrize(
    ("options", "mode", "sentence"),
    [
        ({"topic": "nowhere"}, "append", "there is no topic nowhere at .*: make it first"),
        ({"topics": "t"}, "append", "there is no option 'topics'; there are broker, topic, compr"),
        ({"topic": "t"}, "overwrite", "a topic cannot be overwritten: write with mode append"),
    ],
)
def test_given_a_write_that_cannot_be_when_tried_then_one_sentence_says_so(
    spark, broker, options, mode, sentence
):
    frame = spark.sql("SELECT 'v' AS value").write.format("tidelog").mode(mode)

    with pytest.raises(PySparkException, match=sentence):
        frame.options(broker=broker.address, **options).save()
