"""ProduceHandler: Produce.

The way of nearly every request is plain records for one partition that exists: they are appended
and answered without anything in between. All else is for `ProduceEntries`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from broker.kafka_api.call import Call
from broker.network.answers import Answer, Parts, PendingResponse
from broker.requests.produce_entries import RECORD_BATCH, Entry, Outcome, ProduceEntries, Request
from protocol.compression import Codec
from protocol.error_codes import ErrorCode
from protocol.errors import StorageError
from protocol.kafka.acknowledgement import encode_acknowledgement
from protocol.kafka.produce import (
    ACKS_ALL,
    ACKS_NONE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.record_batch import MAGIC

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.partition import Partition

BY_ID_FROM: Final = 13
ZSTD_FROM: Final = 7
MAGIC_POSITION: Final = 16
"""In record batches and the message sets before them alike."""
CODEC_POSITION: Final = 22
"""Of the byte of a batch's attributes that holds the codec."""
CODEC_BITS: Final = 7


class ProduceHandler:
    """Appends what clients send; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._entries = ProduceEntries(server)
        self._partitions = server.manager.writable_partitions_by_topic
        self._names_by_id = server.manager.topic_names_by_id

    def produce(self, request: ProduceRequest, call: Call) -> Answer:
        """Handle a Produce: each partition has its own error."""
        topics = request.topic_data
        if len(topics) == 1 and len(topics[0].partition_data) == 1:
            try:
                appended = self._append_plain(topics[0], request.acks, call.version)
            except StorageError as error:
                failed = self._entries.refused(error)
                return self._entries.acknowledge([failed], self._shared(request, call, [None]))
            if appended is not None:
                return self._acknowledge(*appended, request, call)
        outcomes: list[Outcome | None] = []
        """Of each partition; None where the entries have it."""
        entries: list[Entry] = []
        for topic in request.topic_data:
            name = self._name(topic, call.version)
            for data in topic.partition_data:
                refused = _refusal(name, data, call.version)
                outcomes.append(refused)
                if refused is None:
                    assert name is not None
                    records = b"" if data.records is None else data.records
                    entries.append(Entry(name, data.index, RECORD_BATCH, records))  # type: ignore[arg-type]
        return self._entries.append(entries, self._shared(request, call, outcomes))

    def _shared(
        self, request: ProduceRequest, call: Call, outcomes: Sequence[Outcome | None]
    ) -> Request:
        """Return what the entries of a request have in common.

        Args:
            outcomes: Of each partition; None for those that are made an entry.
        """
        return Request(
            request.acks, request.timeout_ms, partial(self._encode, request, call, outcomes),
            call.connection, call.metrics, call.started_s, may_create_topics=False,
            refused=[each for each in outcomes if each is not None],
        )  # fmt: skip

    def _append_plain(
        self, topic: TopicProduceData, acks: int, version: int
    ) -> tuple[Partition, int, int] | None:
        """Append the records of a single partition, if they are plain.

        Returns:
            The partition, the offset of the first record, and how many they are. None: nothing was
            done.
        """
        data = topic.partition_data[0]
        index, records = data.index, cast(memoryview | None, data.records)
        partitions = self._partitions.get(self._name(topic, version) or b"")
        if (
            records is None
            or partitions is None
            or not 0 <= index < len(partitions)
            or (partition := partitions[index]) is None
            or not -1 <= acks <= 1
            or version < ZSTD_FROM
        ):
            return None
        log = partition.log
        first_offset = log.log_end_offset
        count = log.appender.append_plain(records)
        if not count:
            return None
        partition.bytes_in += len(records)
        partition.messages_in += count
        return partition, first_offset, count

    def _acknowledge(
        self,
        partition: Partition,
        first_offset: int,
        count: int,
        request: ProduceRequest,
        call: Call,
    ) -> Answer:
        """Answer for the only partition, at once or when it is committed."""
        if request.acks == ACKS_NONE:
            return None
        end_offset = first_offset + count
        if request.acks != ACKS_ALL or partition.log.watermark.offset >= end_offset:
            return _encode_plain(partition, first_offset, request, call)
        pending = PendingResponse()

        def decided(error: ErrorCode) -> None:
            if error:
                refused = Outcome(call.count_error(error))
                call.complete(pending, _response(request, iter((refused,))))
            else:
                answer = _encode_plain(partition, first_offset, request, call)
                call.complete_encoded(pending, answer)

        deadline_s = call.started_s + request.timeout_ms / 1000
        partition.when_committed(end_offset, deadline_s, decided)
        return pending

    def refuse(self, request: ProduceRequest, call: Call) -> ProduceResponse:
        """Answer a version below those that are served: it is advertised all the same."""
        refused = Outcome(call.count_error(ErrorCode.UNSUPPORTED_VERSION))
        count = sum(len(topic.partition_data) for topic in request.topic_data)
        return _response(request, iter([refused] * count))

    def _name(self, topic: TopicProduceData, version: int) -> bytes | None:
        if version >= BY_ID_FROM:
            return self._names_by_id.get(topic.topic_id)
        return topic.name.encode()

    def _encode(
        self,
        request: ProduceRequest,
        call: Call,
        known: Sequence[Outcome | None],
        appended: Sequence[Outcome],
    ) -> Parts:
        rest = iter(appended)
        outcomes = (next(rest) if each is None else each for each in known)
        return call.encode(_response(request, outcomes))


def _encode_plain(
    partition: Partition, first_offset: int, request: ProduceRequest, call: Call
) -> bytes:
    """Return the answer for the only partition, to which `_append_plain` has appended."""
    topic = request.topic_data[0]
    return encode_acknowledgement(
        call.version, call.correlation_id, topic.name, topic.topic_id,
        topic.partition_data[0].index, first_offset, partition.log.log_start_offset,
    )  # fmt: skip


def _refusal(name: bytes | None, data: PartitionProduceData, version: int) -> Outcome | None:
    """Return why a partition's records are not even tried, None if they are."""
    if name is None:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_ID)
    records: Any = data.records
    size = 0 if records is None else len(records)
    if size > MAGIC_POSITION and records[MAGIC_POSITION] < MAGIC:
        text = f"version {version} takes record batches only, no message sets"
        return Outcome(ErrorCode.INVALID_RECORD, message=text)
    is_checked = version < ZSTD_FROM and size > CODEC_POSITION
    if is_checked and records[CODEC_POSITION] & CODEC_BITS == Codec.ZSTD:
        return Outcome(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return None


def _response(request: ProduceRequest, outcomes: Iterator[Outcome]) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _partition_response(data.index, next(outcomes)) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _partition_response(index: int, outcome: Outcome) -> PartitionProduceResponse:
    partition = outcome.partition
    return PartitionProduceResponse(
        index=index,
        error_code=outcome.error,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.append_time_ms,
        log_start_offset=-1 if partition is None else partition.log.log_start_offset,
        error_message=outcome.message,
    )
