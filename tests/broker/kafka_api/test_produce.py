"""Produce: what is appended, and what is answered where it is not; partition by partition."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from protocol.compression import Codec
from protocol.error_codes import ErrorCode
from protocol.errors import FrameError
from protocol.identifiers import Buffer
from protocol.kafka.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.native.requests import encode_delete_topic
from protocol.record_batch import Record, iterate_batches
from protocol.record_batch_builder import build_batch
from tests.support.kafka_broker import KafkaBroker, KafkaSent
from tests.support.native_broker import CLOCK_START_MS, OS, FakeConnection, batch
from tests.support.producers import marker_batch, producer_batch
from tests.support.records import sealed

LAST_BY_NAME = 12
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def produce(
    *sets: Buffer | tuple[int, Buffer] | None, topic: str = "logs", acks: int = 1, **how: Any
) -> ProduceRequest:
    """To one topic, by name; a set by itself is for partition 0."""
    data = [PartitionProduceData(*(s if isinstance(s, tuple) else (0, s))) for s in sets]
    values = {"timeout_ms": 1_000, **how}
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(topic, b"", data)], **values)


def sent(broker: KafkaBroker, *sets: Any, version: int = LAST_BY_NAME, **how: Any) -> KafkaSent:
    request = produce(*sets, **how)
    if version > LAST_BY_NAME:
        (topic,) = request.topic_data
        topic.topic_id = broker.manager.topic(topic.name).topic_id.bytes
    else:
        request.topic_data[0].topic_id = bytes(16)
    return broker.ask(request, version)


def answers(broker_answer: KafkaSent) -> list[Any]:
    (topic,) = broker_answer.response.responses
    return list(topic.partition_responses)


def produced(broker: KafkaBroker, *sets: Any, **how: Any) -> list[tuple[int, int]]:
    """Error and base offset of each partition."""
    return [(each.error_code, each.base_offset) for each in answers(sent(broker, *sets, **how))]


def refused(broker: KafkaBroker, data: Any, **how: Any) -> tuple[int, str | None]:
    """Error and reason; nothing must have been appended."""
    end = broker.partition("logs").log.log_end_offset
    (answer,) = answers(sent(broker, data, **how))
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, -1)
    assert broker.partition("logs").log.log_end_offset == end
    return answer.error_code, answer.error_message


def producer(*arguments: int, **how: Any) -> bytes:
    return bytes(producer_batch(*arguments, timestamp=CLOCK_START_MS, **how))


def message_set(magic: int) -> bytes:
    """As producers sent it before there were record batches."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    assert builder.append(0, CLOCK_START_MS, b"key", b"value") is not None
    return bytes(builder.build())


def logs(broker: KafkaBroker, partitions: int = 1, **settings: str) -> None:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    broker.create_topic("logs", partitions, OS | dotted)


# --- what is appended -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_given_a_batch_when_produced_then_its_offset_is_told(version: int, acks: int):
    with KafkaBroker() as broker:
        logs(broker)
        sent(broker, batch(b"a", b"b"))

        (answer,) = answers(sent(broker, batch(b"c"), version=version, acks=acks))

        assert (answer.index, answer.error_code, answer.base_offset) == (0, 0, 2)
        assert (answer.log_append_time_ms, answer.error_message) == (-1, None)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert answer.record_errors == []


@pytest.mark.parametrize("version", range(3))
def test_given_a_version_before_batches_when_produced_then_it_is_refused(version: int):
    with KafkaBroker() as broker:
        logs(broker)
        error, _ = refused(broker, message_set(1), version=version)

        assert error == ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(FrameError):  # nobody would be told
            sent(broker, message_set(1), version=version, acks=0)


def test_given_several_partitions_when_produced_then_each_has_its_own_answer():
    with KafkaBroker() as broker:
        logs(broker, 2)

        found = produced(
            broker,
            (0, batch(b"a")), (9, batch(b"b")), (1, batch(b"c")), (1, b"damaged" * 20),
            (0, batch(b"d", b"e")), (0, batch(b"f")), (-1, batch(b"g")),
        )  # fmt: skip

        assert found == [
            (0, 0), (UNKNOWN, -1), (0, 0), (ErrorCode.CORRUPT_MESSAGE, -1), (0, 1), (0, 3),
            (UNKNOWN, -1),
        ]  # fmt: skip
        assert broker.kafka_errors("produce") == {UNKNOWN: 2, ErrorCode.CORRUPT_MESSAGE: 1}


def test_given_more_partitions_than_fit_a_turn_when_produced_then_all_are_appended_in_order():
    with KafkaBroker() as broker:
        logs(broker)

        sets = [batch(b"%d" % number) for number in range(250)]
        assert produced(broker, *sets) == [(0, number) for number in range(250)]


def test_given_log_append_time_when_produced_then_the_brokers_time_is_told():
    with KafkaBroker() as broker:
        logs(broker, message_timestamp_type="LogAppendTime")

        (answer,) = answers(sent(broker, batch(b"a", now_ms=5)))

        assert answer.log_append_time_ms == broker.clock.now_ms()


# --- what is refused ------------------------------------------------------------------------------


def changed(**fields: int) -> bytes:
    return bytes(sealed(batch(b"a", b"b"), **fields))


REFUSED: Mapping[str, tuple[bytes | None, ErrorCode]] = {
    "null": (None, ErrorCode.INVALID_RECORD),
    "empty": (b"", ErrorCode.INVALID_RECORD),
    "format 0": (message_set(0), ErrorCode.INVALID_RECORD),
    "format 1": (message_set(1), ErrorCode.INVALID_RECORD),
    "magic 3": (changed(magic=3), ErrorCode.CORRUPT_MESSAGE),
    "a wrong crc": (changed(crc=1), ErrorCode.CORRUPT_MESSAGE),
    "a cut batch": (batch(b"cut")[:-1], ErrorCode.CORRUPT_MESSAGE),
    "a cut header": (batch(b"cut")[:20], ErrorCode.CORRUPT_MESSAGE),
    "no record": (changed(record_count=0), ErrorCode.INVALID_RECORD),
    "a gap in its offsets": (changed(last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "codec 5": (changed(attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "LogAppendTime": (changed(attributes=8), ErrorCode.INVALID_RECORD),
    "a transaction": (producer(7, 0, transactional=True), ErrorCode.INVALID_RECORD),
    "a marker": (bytes(marker_batch(7, commit=True)), ErrorCode.INVALID_RECORD),
    "too large": (batch(bytes(2_000)), ErrorCode.MESSAGE_TOO_LARGE),
    "too late": (batch(b"a", now_ms=CLOCK_START_MS + 4_000_000), ErrorCode.INVALID_TIMESTAMP),
    "too early": (batch(b"a", now_ms=CLOCK_START_MS - 4_000_000), ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("case", REFUSED)
def test_given_what_no_producer_may_send_when_produced_then_it_is_refused_and_says_why(case: str):
    with KafkaBroker() as broker:
        logs(
            broker,
            max_message_bytes="1000",
            message_timestamp_before_max_ms="3600000",
            message_timestamp_after_max_ms="3600000",
        )

        data, error = REFUSED[case]
        found, reason = refused(broker, data)

        assert found == error
        assert reason


@pytest.mark.parametrize("version", [3, 6, 7, 13])
def test_given_zstd_when_produced_then_only_versions_that_know_it_take_it(version: int):
    with KafkaBroker() as broker:
        logs(broker)
        data = build_batch([Record(0, CLOCK_START_MS, None, bytes(500))], codec=Codec.ZSTD)

        ((error, _),) = produced(broker, data, version=version)

        assert error == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if version < 7 else 0)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("none", UNKNOWN),
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC),
        ("a b", ErrorCode.INVALID_TOPIC),
        ("", ErrorCode.INVALID_TOPIC),
    ],
)
def test_given_a_topic_that_cannot_be_written_when_produced_then_it_is_refused_and_not_made(
    topic: str, error: ErrorCode
):
    with KafkaBroker() as broker:
        broker.loop.run(broker.manager.ensure_topic("__consumer_offsets"))

        assert produced(broker, batch(b"a"), topic=topic) == [(error, -1)]
        assert [each.name for each in broker.manager.topics()] == ["__consumer_offsets"]


@pytest.mark.parametrize("topic_id", [bytes(16), b"\x07" * 16])
def test_given_an_unknown_id_when_produced_then_it_is_no_unknown_name(topic_id: bytes):
    with KafkaBroker() as broker:
        logs(broker)
        request = produce(batch(b"a"), topic="")
        request.topic_data[0].topic_id = topic_id

        (topic,) = broker.answer(request).responses

        assert topic.topic_id == topic_id
        assert topic.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("acks", [2, -2, 32_767])
def test_given_acks_that_cannot_be_when_produced_then_nothing_is_appended(acks: int):
    with KafkaBroker() as broker:
        logs(broker)

        error, _ = refused(broker, batch(b"a"), acks=acks)

        assert error == ErrorCode.INVALID_REQUIRED_ACKS


def test_given_a_full_disk_when_produced_then_the_error_is_one_to_repeat_and_names_no_path():
    with KafkaBroker() as broker:
        logs(broker)
        broker.disk.fail("write", OSError(errno.ENOSPC, "No space left"))

        assert refused(broker, batch(b"a")) == (ErrorCode.KAFKA_STORAGE_ERROR, None)


# --- acks -----------------------------------------------------------------------------------------


def test_given_acks_0_when_produced_then_nothing_is_answered():
    with KafkaBroker() as broker:
        logs(broker)

        assert sent(broker, batch(b"a"), acks=0).whole is None
        assert broker.partition("logs").log.log_end_offset == 1
        assert broker.connection.closed == []


def test_given_acks_0_when_it_fails_then_the_connection_is_closed():
    with KafkaBroker() as broker:
        logs(broker)

        assert sent(broker, batch(b"a"), (3, batch(b"b")), acks=0).whole is None
        assert broker.connection.closed == [("produce_failed", UNKNOWN.name)]


def test_given_acks_all_when_produced_then_the_answer_waits_for_the_disk():
    with KafkaBroker(hold_flush=True) as broker:
        broker.create_topic("logs", 2)
        waits = sent(broker, (0, batch(b"a")), (1, batch(b"b")), (2, batch(b"c")), acks=-1)
        assert waits.is_waiting
        assert not waits.pauses_reading

        broker.flushes.follow()
        broker.loop.settle()

        assert [each.error_code for each in answers(waits)] == [0, 0, UNKNOWN]


def test_given_acks_all_when_the_disk_takes_too_long_then_the_time_is_over():
    with KafkaBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        waits = sent(broker, batch(b"a"), acks=-1, timeout_ms=500)

        broker.loop.advance(490)
        assert waits.is_waiting
        broker.loop.advance(100)

        (answer,) = answers(waits)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        broker.flushes.follow()


def test_given_acks_all_when_the_topic_is_deleted_meanwhile_then_that_is_the_answer():
    with KafkaBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        waits = sent(broker, batch(b"a"), acks=-1)

        deletion = broker.send(encode_delete_topic("logs"))
        assert [each.error_code for each in answers(waits)] == [UNKNOWN]

        broker.flushes.follow()
        broker.loop.settle()
        assert deletion.status == (0, "")


def test_given_a_client_that_goes_when_it_waits_for_the_disk_then_its_records_stay():
    with KafkaBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        gone = FakeConnection()
        waits = broker.ask(produce(batch(b"a"), acks=-1), LAST_BY_NAME, connection=gone)
        waits.abandon()

        broker.flushes.follow()
        broker.loop.settle()

        assert broker.partition("logs").log.high_watermark == 1


# --- idempotence ----------------------------------------------------------------------------------


def test_given_a_repetition_when_produced_then_its_first_offset_is_told_and_nothing_appended():
    with KafkaBroker() as broker:
        logs(broker)
        batches = [producer(7, 3 * number, count=3) for number in range(6)]
        for number, each in enumerate(batches):
            assert produced(broker, each, acks=-1) == [(0, 3 * number)]

        for number in (1, 5, 3):
            assert produced(broker, batches[number], acks=-1) == [(0, 3 * number)]

        assert produced(broker, batches[0]) == [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)]
        assert broker.partition("logs").log.log_end_offset == 18


def test_given_a_repetition_in_one_request_when_produced_then_it_is_known():
    with KafkaBroker() as broker:
        logs(broker)

        assert produced(broker, producer(7, 0), producer(7, 0), producer(7, 1)) == [
            (0, 0), (0, 0), (0, 1),
        ]  # fmt: skip


def test_given_a_repetition_of_what_is_not_durable_when_produced_then_it_waits_too():
    with KafkaBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        first, again = (sent(broker, producer(7, 0), acks=-1) for _ in range(2))
        assert first.is_waiting
        assert again.is_waiting

        broker.flushes.follow()
        broker.loop.settle()

        assert [each.base_offset for each in answers(first) + answers(again)] == [0, 0]


SEQUENCES: Mapping[str, tuple[bytes, int]] = {
    "a gap": (producer(7, 3, epoch=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "an overlap": (producer(7, 1, epoch=2, count=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "an older epoch": (producer(7, 2, epoch=1), ErrorCode.INVALID_PRODUCER_EPOCH),
    "a newer epoch": (producer(7, 0, epoch=3), 0),
    "a newer epoch with a gap": (producer(7, 2, epoch=3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    "a producer nobody knows": (producer(8, 4), 0),
    "what is next": (producer(7, 2, epoch=2), 0),
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_given_a_producer_when_it_goes_on_then_epoch_and_sequence_decide(case: str):
    with KafkaBroker() as broker:
        logs(broker)
        assert produced(broker, producer(7, 0, epoch=2, count=2)) == [(0, 0)]
        data, error = SEQUENCES[case]

        ((found, offset),) = produced(broker, data)

        assert (found, offset) == (error, -1 if error else 2)


def test_given_several_batches_in_one_set_when_produced_then_all_or_none_is_appended():
    with KafkaBroker() as broker:
        logs(broker)

        assert produced(broker, batch(b"a") + batch(b"b", b"c")) == [(0, 0)]
        assert produced(broker, batch(b"d") + changed(crc=1)) == [(ErrorCode.CORRUPT_MESSAGE, -1)]

        data = broker.partition("logs").log.read(0, 1 << 20).slices[0].read()
        assert [each.base_offset for _, each in iterate_batches(data)] == [0, 1]
