"""BrokerSender: what is sent again and what is not, before a server that has bad days."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import Row

from protocol.compression import Codec
from protocol.errors import BrokerError, ErrorCode
from protocol.identifiers import TopicPartition
from protocol.native import requests, responses
from tests.support.scripted_clients import BATCH
from tests.support.scripted_server import ScriptedServer
from tests.support.spark_broker import schema_of, with_topic
from tidelog.client import Client
from tidelog.spark import broker_link
from tidelog.spark.broker_sender import BatchSet, BrokerSender
from tidelog.spark.broker_sink import BrokerWriter
from tidelog.spark.errors import BrokerUnreachableError
from tidelog.spark.sink_options import SinkOptions

SETS = [BatchSet(TopicPartition("t", number), BATCH) for number in range(3)]


def sent_partitions(server: ScriptedServer) -> list[int]:
    return [requests.decode_produce(frame)[1] for frame in server.requests]


def send_to(outcomes: list[int | None]) -> tuple[ScriptedServer, Exception | None]:
    """Send the sets to a server that gives these answers; None closes the connection."""

    def answer(number: int, frame: bytes) -> bytes | None:
        error = outcomes[number] if number < len(outcomes) else 0
        return None if error is None else responses.encode_produce_response(error, 0, -1, 2)

    failure = None
    with ScriptedServer(answer) as server, BrokerSender(server.address) as sender:
        try:
            sender.send(SETS)
        except (BrokerError, BrokerUnreachableError) as error:
            failure = error
    return server, failure


def test_given_a_passing_error_when_sent_then_only_that_set_is_sent_again():
    server, failure = send_to([0, ErrorCode.KAFKA_STORAGE_ERROR, 0])

    assert failure is None
    assert sent_partitions(server) == [0, 1, 2, 1]


def test_given_a_lost_connection_when_sent_then_all_sets_without_an_answer_are_sent_again():
    server, failure = send_to([None])

    assert failure is None
    assert sent_partitions(server) == [0, 0, 1, 2]


def test_given_a_refused_set_when_sent_then_the_brokers_reason_is_raised():
    server, failure = send_to([0, ErrorCode.INVALID_RECORD, 0])

    assert isinstance(failure, BrokerError)
    assert failure.number == ErrorCode.INVALID_RECORD
    assert "t-1" in str(failure)
    assert sent_partitions(server) == [0, 1, 2]


def test_given_a_broker_that_stays_away_when_sent_then_it_ends(monkeypatch):
    monkeypatch.setattr(broker_link, "UNREACHABLE_MAX_S", 0.1)

    _, failure = send_to([None] * 100)

    assert isinstance(failure, BrokerUnreachableError)
    with pytest.raises(BrokerUnreachableError):
        raise failure


def test_given_rows_of_a_spark_without_arrow_streams_when_written_then_a_client_finds_them(broker):
    topic = with_topic(broker.address, "sent-rows", [])
    columns = ["key", "value", "headers"]
    rows = [
        Row(key=b"k%d" % n, value=None, headers=[Row(key="n", value=b"%d" % n)]) for n in range(5)
    ]
    rows.append(Row(key=None, value=b"v", headers=None))
    options = SinkOptions(broker=broker.address, topic=topic, codec=Codec.GZIP)

    BrokerWriter(options, schema_of(columns)).write_rows(rows)

    with Client(broker.address) as client:
        found = [(each.key, each.value, each.headers) for each in client.messages(topic)]
    assert found == [
        *((b"k%d" % n, None, (("n", b"%d" % n),)) for n in range(5)),
        (None, b"v", ()),
    ]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_given_a_topic_of_small_messages_when_written_then_batches_are_small_enough(broker, codec):
    topic = f"sent-small-{codec.name}"
    with Client(broker.address) as client:
        client.create_topic(topic, 2, {"max.message.bytes": "1000"})
    random = Random(1)
    keys = [b"%d" % number for number in range(4_000)]
    rows = pa.RecordBatch.from_pydict({"key": keys, "value": [random.randbytes(300)] * 4_000})
    options = SinkOptions(broker=broker.address, topic=topic, codec=codec)

    BrokerWriter(options, schema_of(["key", "value"])).write(iter([rows, rows]))

    with Client(broker.address) as client:
        found = [[each.key for each in client.messages(topic, [number])] for number in (0, 1)]
    assert sorted(found[0] + found[1]) == sorted(2 * keys)
    for each in found:
        assert each == 2 * [key for key in keys if key in each]  # in their order, none twice


def test_given_a_record_that_is_too_large_when_written_then_it_is_said(broker):
    topic = "sent-large"
    with Client(broker.address) as client:
        client.create_topic(topic, 1, {"max.message.bytes": "1000"})
    rows = pa.RecordBatch.from_pydict({"value": [b"small", bytes(2_000), b"small"]})
    writer = BrokerWriter(SinkOptions(broker=broker.address, topic=topic), schema_of(["value"]))

    with pytest.raises(BrokerError, match=f"a record for {topic}-0 is larger than the topic's max"):
        writer.write(iter([rows]))


def test_given_more_than_one_request_takes_when_written_then_all_arrive_in_order(broker):
    topic = with_topic(broker.address, "sent-much", [], [])
    values = [(b"%d" % number).ljust(50_000) for number in range(60)]
    options = SinkOptions(broker=broker.address, topic=topic)
    batch = pa.RecordBatch.from_pydict({"value": values})

    BrokerWriter(options, schema_of(["value"])).write(iter([batch, batch]))

    with Client(broker.address) as client:
        for partition in range(2):
            found = [each.value for each in client.messages(topic, [partition])]
            assert found == values
