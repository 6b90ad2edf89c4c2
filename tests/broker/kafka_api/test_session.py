"""KafkaSession: which requests are handled, which are refused how, and answers in order."""

from __future__ import annotations

import struct
from typing import Any, cast

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from broker.network.connection import Connection
from broker.network.limits import Admission, ConnectionLimits
from broker.network.receive_buffer import SharedReceiveBuffer
from protocol.error_codes import ErrorCode
from protocol.errors import FrameError
from protocol.kafka.api_versions import ApiVersionsRequest
from protocol.kafka.apis import APIS, ApiKey
from protocol.kafka.codec import encode_request
from protocol.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.kafka.group_membership import HeartbeatRequest
from protocol.kafka.message import Struct
from protocol.kafka.metadata import MetadataRequest
from protocol.kafka.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.kafka_broker import KafkaBroker
from tests.support.native_broker import batch
from tests.support.network import ClosedCounter, FakeTransport

KAFKA_4_3 = {int(key): versions for key, versions in BROKER_API_VERSIONS[(4, 3)].items()}
STRICT = [key for key in APIS if key not in (ApiKey.API_VERSIONS, ApiKey.PRODUCE)]


def produce(acks: int, *partitions: PartitionProduceData, **topic: Any) -> ProduceRequest:
    data = TopicProduceData(partition_data=list(partitions), **topic)
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[data])


def records() -> PartitionProduceData:
    return PartitionProduceData(0, bytes(batch(b"v")))


def handle(broker: KafkaBroker, frame: bytes) -> Any:
    """Return what the session makes of a frame as it is."""
    view, connection = memoryview(bytearray(frame)), cast(Any, broker.connection)
    return broker.kafka_session.handle_frames(view, 0, len(view), len(view), connection)[0]


# --- which versions ---------------------------------------------------------------------------


def test_given_the_table_when_asked_for_then_each_api_has_the_versions_of_kafka_4_3():
    """Clients infer the broker's release from the table: it has to be that of one release."""
    with KafkaBroker() as broker:
        answer = broker.answer(ApiVersionsRequest("me", "1"))

    told = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    assert told == {key: KAFKA_4_3[key] for key in APIS}


@pytest.mark.parametrize("key", STRICT, ids=lambda key: key.name)
def test_given_a_version_that_is_not_served_when_asked_then_the_connection_ends(key: ApiKey):
    api = APIS[key]
    with KafkaBroker() as broker:
        for version in (-1, api.first_version - 1, api.last_version + 1):
            with pytest.raises(FrameError, match=f"{key.name} is not served"):
                handle(broker, struct.pack(">hhih", key, version, 1, -1) + bytes(100))


def test_given_an_api_that_is_not_served_when_asked_then_the_connection_ends():
    with KafkaBroker() as broker, pytest.raises(FrameError, match="no API 17"):
        handle(broker, struct.pack(">hhih", 17, 0, 1, -1))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_given_an_old_produce_when_it_waits_for_an_answer_then_each_partition_has_error_35(
    version: int,
):
    """Trap 2: these are advertised, lest older librdkafka leave its batches uncompressed."""
    request = produce(1, records(), PartitionProduceData(7, None), name="logs")
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        (topic,) = broker.answer(request, version).responses

        assert [each.index for each in topic.partition_responses] == [0, 7]
        assert {each.error_code for each in topic.partition_responses} == {35}
        assert broker.partition("logs").log.log_end_offset == 0
        assert broker.kafka_errors("produce") == {ErrorCode.UNSUPPORTED_VERSION: 1}
        with pytest.raises(FrameError, match="PRODUCE is not served"):
            broker.ask(produce(0, records(), name="logs"), version)


@pytest.mark.parametrize("version", [-1, 14])
def test_given_a_produce_of_no_version_when_asked_then_the_connection_ends(version: int):
    with KafkaBroker() as broker, pytest.raises(FrameError, match="PRODUCE is not served"):
        handle(broker, struct.pack(">hhih", 0, version, 1, -1) + bytes(100))


@pytest.mark.parametrize("version", [-1, 5, 32_767])
def test_given_api_versions_of_no_version_when_asked_then_the_table_in_version_0(version: int):
    with KafkaBroker() as broker:
        answer = handle(broker, struct.pack(">hhih", 18, version, 9, -1) + b"\xff" * 5)
        counted = broker.kafka_errors("api_versions")

    assert counted == {ErrorCode.UNSUPPORTED_VERSION: 1}
    assert isinstance(answer, bytes)
    size, correlation_id, error, count = struct.unpack_from(">iihi", answer)
    assert (size, correlation_id, error) == (len(answer) - 4, 9, 35)
    assert len(answer) == 4 + 4 + 2 + 4 + 6 * count
    assert count == len(APIS)


@pytest.mark.parametrize("named", [("", "1"), ("me", ""), ("-me", "1"), ("me", "1 "), ("mé", "1")])
def test_given_software_that_cannot_be_when_it_introduces_itself_then_an_invalid_request(named):
    """KIP-511: names go into metrics of others."""
    with KafkaBroker() as broker:
        answer = broker.answer(ApiVersionsRequest(*named), 3)

        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
        assert broker.kafka_errors("api_versions") == {ErrorCode.INVALID_REQUEST: 1}
        assert broker.answer(ApiVersionsRequest(*named), 2).error_code == 0


def test_given_requests_when_handled_then_they_and_what_they_took_are_counted():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        broker.answer(MetadataRequest(), 12)
        metadata = broker.metrics.requests("kafka", "metadata")
        fetches = broker.metrics.requests("kafka", "fetch")
        broker.ask(poll(5_000), 12)
        waiting = (fetches.count, fetches.latency.count)
        broker.loop.advance(5_100)

    assert (metadata.count, metadata.latency.count) == (1, 1)
    assert waiting == (1, 0)
    assert (fetches.count, fetches.latency.count) == (1, 1)
    assert 5.0 <= fetches.latency.seconds_sum < 5.2


# --- acks 0 -------------------------------------------------------------------------------------


def zstd() -> PartitionProduceData:
    data = bytearray(batch(b"v"))
    data[22] |= 4
    return PartitionProduceData(0, bytes(data))


@pytest.mark.parametrize(
    ("request_", "version", "reason"),
    [
        (produce(0, records(), topic_id=b"\7" * 16), 13, "UNKNOWN_TOPIC_ID"),
        (produce(0, zstd(), name="logs"), 6, "UNSUPPORTED_COMPRESSION_TYPE"),
        (produce(0, records(), name="none"), 12, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_given_acks_0_when_a_partition_fails_then_the_others_are_kept_and_the_connection_ends(
    request_: ProduceRequest, version: int, reason: str
):
    """As Kafka does: else a client that wants no answers would write into nothing for ever."""
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        broker.create_topic("other")
        topic_id = broker.manager.topic("other").topic_id.bytes
        good = TopicProduceData("other", topic_id, [records()])
        request_.topic_data.append(good)

        sent = broker.ask(request_, version)

        assert sent.whole is None
        assert broker.connection.closed == [("produce_failed", reason)]
        assert broker.partition("other").log.log_end_offset == 1
        assert broker.kafka_errors("produce") == {ErrorCode[reason]: 1}


def test_given_a_refused_partition_when_answered_then_its_error_is_counted():
    with KafkaBroker() as broker:
        broker.answer(produce(1, records(), topic_id=b"\7" * 16), 13)

        assert broker.kafka_errors("produce") == {ErrorCode.UNKNOWN_TOPIC_ID: 1}


# --- one connection -----------------------------------------------------------------------------


class Client:
    """A real connection over a fake transport, driven by the broker's loop."""

    def __init__(self, broker: KafkaBroker, **limits: Any) -> None:
        self.broker, self.transport = broker, FakeTransport()
        self.connection = Connection(
            broker.loop,
            Admission(ConnectionLimits(**limits)),
            SharedReceiveBuffer(),
            broker.kafka.session,
            ClosedCounter(),
            lambda connection: None,
        )
        self.transport.set_protocol(self.connection)
        self.connection.connection_made(self.transport)

    def send(self, *requests: tuple[ApiKey, int, Struct]) -> None:
        """Send them in one piece, numbered from 1 on."""
        data = b"".join(
            encode_request(APIS[key], version, number, None, request)
            for number, (key, version, request) in enumerate(requests, 1)
        )
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))
        self.broker.loop.settle()

    @property
    def answered(self) -> list[int]:
        """Correlation ids."""
        found, data = [], bytes(self.transport.written)
        while data:
            size, correlation_id = struct.unpack_from(">ii", data)
            found.append(correlation_id)
            data = data[4 + size :]
        return found


def poll(max_wait_ms: int) -> FetchRequest:
    topic = FetchTopic("logs", partitions=[FetchPartition(0, partition_max_bytes=1_000)])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])


def test_given_a_poll_when_others_are_sent_behind_it_then_they_are_done_and_answered_after_it():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        broker.create_topic("other")
        client = Client(broker)

        client.send(
            (ApiKey.METADATA, 13, MetadataRequest()),
            (ApiKey.FETCH, 12, poll(5_000)),
            (ApiKey.PRODUCE, 12, produce(1, records(), name="other")),
            (ApiKey.METADATA, 0, MetadataRequest()),
        )
        answered = client.answered
        broker.loop.advance(5_100)

        assert answered == [1]
        assert broker.partition("other").log.log_end_offset == 1
        assert client.answered == [1, 2, 3, 4]


def test_given_a_poll_when_its_client_goes_then_nobody_waits_any_more():
    with KafkaBroker() as broker:
        broker.create_topic("logs")
        client = Client(broker)
        client.send((ApiKey.FETCH, 12, poll(5_000)))
        partition = broker.partition("logs")
        waited = partition.has_waiters

        client.connection.connection_lost(None)

        assert (waited, partition.has_waiters) == (True, False)


def test_given_a_request_that_makes_no_sense_when_sent_then_those_before_it_are_answered():
    with KafkaBroker() as broker:
        client = Client(broker)
        good = encode_request(APIS[ApiKey.METADATA], 13, 1, "me", MetadataRequest())
        bad = encode_request(APIS[ApiKey.HEARTBEAT], 4, 2, "me", HeartbeatRequest("group"))
        data = good + bad.replace(b"group", b"\xff\xfe\xff\xfe\xff") + good

        client.connection.get_buffer(-1)[: len(data)] = data
        client.connection.buffer_updated(len(data))

        assert client.answered == [1]
        assert client.connection.close_reason == "bad_frame"
        assert client.transport.closed
