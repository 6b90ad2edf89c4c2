"""FetchHandler: Fetch. Batches go out as they are stored, whole ones first (KIP-74).

Fetch sessions are not kept: each answer has session id 0, which tells the client to name all of its
partitions each time (KIP-227). A request that goes on with a session of some other broker is told
that there is none; one that begins or ends a session names all partitions, and is answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from broker.kafka_api.call import Call
from broker.kafka_api.list_offsets import NO_EPOCH, READ_COMMITTED, epoch_error
from broker.network.answers import Answer, Parts
from broker.requests.fetch_sending import ENTRIES_PER_STEP, Found, Send, batch_sends
from broker.requests.waiting_fetch import Entry, WaitingFetch
from broker.requests.warm_slices import WarmSlices
from broker.steps import Steps
from broker.storage.log_reader import ReadLimit
from broker.storage.segment_check import BytesUncheckedError
from protocol.error_codes import ErrorCode
from protocol.errors import TidelogError
from protocol.kafka.encoded_parts import encode_in_place
from protocol.kafka.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from protocol.kafka.fetched import LOG_START_FROM, encode_fetched

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.metrics import RequestMetrics
    from broker.partition import Partition

BY_ID_FROM: Final = 13
WHOLE_REQUEST_EPOCHS: Final = (0, -1)
"""Of a session: that is to be made, and that ends or was never wanted."""
ENTRY_OVERHEAD_BYTES: Final = 100
"""About what a partition takes in the answer beside its records."""


class FetchHandler:
    """Reads what clients ask for; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._partitions = server.manager.partitions_by_topic
        self.loop, self.manager, self.runner = server.loop, server.manager, server.runner
        self.monotonic, self.maps_slices = server.monotonic, server.maps_slices
        self.warm_slices = WarmSlices(server.monotonic)
        self.max_wait_ms_max = server.limits.max_wait_ms_max
        self.response_bytes_max = server.limits.fetch_response_bytes_max

    def fetch(self, request: FetchRequest, call: Call) -> Answer | FetchResponse:
        """Handle a Fetch."""
        if request.session_epoch not in WHOLE_REQUEST_EPOCHS:
            return FetchResponse(error_code=call.count_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        topics = request.topics
        if len(topics) == 1 and len(topics[0].partitions) == 1:
            plain = self._plain(topics[0], request, call)
            if plain is not None:
                return plain
        return _Fetch(self, request, call).answer()

    def _plain(self, topic: FetchTopic, request: FetchRequest, call: Call) -> Parts | None:
        """Answer for the only partition, if there is enough at once and nothing special about it.

        Returns:
            None: what it is `_Fetch` finds out, be it an error, or that it has to wait.
        """
        asked = topic.partitions[0]
        index, offset = asked.partition, asked.fetch_offset
        partitions = self._partitions.get(self.name(topic, call.version) or b"")
        if (
            partitions is None
            or not 0 <= index < len(partitions)
            or (partition := partitions[index]) is None
        ):
            return None
        log, is_committed = partition.log, request.isolation_level == READ_COMMITTED
        watermark = log.watermark
        if (
            offset >= watermark.offset
            or asked.current_leader_epoch not in (NO_EPOCH, log.leader_epoch)
            or call.version < LOG_START_FROM
        ):
            return None
        room = min(request.max_bytes, self.response_bytes_max - ENTRY_OVERHEAD_BYTES)
        max_bytes = max(min(asked.partition_max_bytes, room), 1)
        try:
            if offset < partition.legacy_end_offset:
                return None
            if is_committed and log.upkeep.has_transactions():
                return None
            data = log.reader.read(
                offset, max_bytes, ReadLimit.HIGH_WATERMARK, min_one=True, at_once=False
            )
            if len(data.slices) != 1 or data.size_bytes < min(request.min_bytes, max_bytes):
                return None
            (piece,) = data.slices
            if self.warm_slices.is_cold(piece):
                return None
            records = piece.buffers(mapped=self.maps_slices)
        except (TidelogError, BytesUncheckedError):
            return None
        partition.bytes_out += data.size_bytes
        return encode_fetched(
            call.version, call.correlation_id, topic.topic, topic.topic_id, index,
            (watermark.offset, watermark.last_stable_offset, log.log_start_offset), records,
            is_committed=is_committed,
        )  # fmt: skip

    def name(self, topic: FetchTopic, version: int) -> bytes | None:
        """Return a topic's name; None: no topic has its id."""
        if version >= BY_ID_FROM:
            return self.manager.topic_names_by_id.get(topic.topic_id)
        return topic.topic.encode()


class _Fetch(WaitingFetch):
    """One Fetch, from its first look to its answer."""

    __slots__ = ("_asked", "_call", "_refused", "_request", "_source")

    def __init__(self, handler: FetchHandler, request: FetchRequest, call: Call) -> None:
        partitions = sum(len(topic.partitions) for topic in request.topics)
        room = handler.response_bytes_max - ENTRY_OVERHEAD_BYTES * partitions
        max_bytes = max(min(request.max_bytes, room), 1)  # 0 asks for the first batch all the same
        is_committed = request.isolation_level == READ_COMMITTED
        super().__init__(
            handler,
            call.connection,
            max_bytes=max_bytes,
            min_bytes=min(request.min_bytes, max_bytes),
            max_wait_ms=request.max_wait_ms,
            limit=ReadLimit.LAST_STABLE if is_committed else ReadLimit.HIGH_WATERMARK,
        )
        self._source, self._request, self._call = handler, request, call
        self._refused: dict[int, ErrorCode] = {}
        """By place: what is not even looked for."""
        self._asked: list[FetchPartition] = []

    def answer(self) -> Answer:
        """Look once; answer, or wait."""
        return self._begin(self._all_steps())

    def _all_steps(self) -> Steps[Parts | None]:
        for topic in self._request.topics:
            name = self._source.name(topic, self._call.version)
            for asked in topic.partitions:
                if self._asked and not len(self._asked) % ENTRIES_PER_STEP:
                    yield None
                self._add(name, asked)
        return (yield from self._answer_steps())

    def _add(self, name: bytes | None, asked: FetchPartition) -> None:
        error = ErrorCode.NONE
        if name is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif asked.current_leader_epoch != NO_EPOCH:
            try:
                log = self._handler.manager.partition_of(name, asked.partition).log
                error = epoch_error(log, asked.current_leader_epoch)
            except TidelogError as problem:
                error = problem.code
        if error or name is None:
            self._refused[len(self._asked)] = error
            name = b""  # there is no such topic, so what is found there takes no room
        self._asked.append(asked)
        max_bytes = max(asked.partition_max_bytes, 1)
        self._entries.append(Entry(name, asked.partition, asked.fetch_offset, max_bytes))

    @property
    def _metrics(self) -> RequestMetrics:
        return self._call.metrics

    def _look(self, *, listens: bool = False) -> Steps[list[Found]]:
        looked = yield from super()._look(listens=listens)
        for place, error in self._refused.items():
            looked[place] = Found(error, looked[place].offset, 0)
        return looked

    def _steps(self, looked: Sequence[Found]) -> Steps[list[Send]]:
        return batch_sends(
            looked,
            self._look,
            self._handler.warm_slices.is_cold,
            mapped=self._handler.maps_slices,
            bytes_max=self._max_bytes,
        )

    # --- the answer -----------------------------------------------------------------------------

    def _sent(self, sends: Sequence[Send]) -> Steps[Parts]:
        """Return the answer; of many partitions it is made, and encoded, in steps."""
        call, request = self._call, self._request
        rest = iter(zip(self._asked, self._entries, sends, strict=True))
        topics: list[Any] = []
        topics_encoded = spent = 0
        for topic in request.topics:
            answer = FetchableTopicResponse(topic.topic, topic.topic_id, [])
            partitions: list[Any] = answer.partitions
            encoded, count = 0, len(topic.partitions)
            for start in range(0, count, ENTRIES_PER_STEP):
                if spent >= ENTRIES_PER_STEP:
                    encode_in_place(call.api, call.version, topics, topics_encoded)
                    encode_in_place(call.api, call.version, partitions, encoded)
                    topics_encoded, encoded, spent = len(topics), start, 0
                    yield None
                # Another topic may have got the name while this one waited.
                is_there = self._source.name(topic, call.version) is not None
                some = islice(rest, min(ENTRIES_PER_STEP, count - start))
                partitions += [self._partition(*each, is_there) for each in some]
                spent += len(partitions) - start
            topics.append(answer)
        return call.encode(FetchResponse(responses=topics))

    def _partition(
        self, asked: FetchPartition, entry: Entry, send: Send, is_there: bool
    ) -> PartitionData:
        error, aborted = send.error if is_there else ErrorCode.UNKNOWN_TOPIC_ID, None
        partition: Partition | None = None
        if error in (ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR):  # a closed log may be gone
            try:
                partition = self._source.manager.partition_of(entry.topic, entry.partition)
                if self._limit is ReadLimit.LAST_STABLE:
                    aborted = self._aborted(partition, entry.offset) if send.buffers else []
            except TidelogError as problem:  # it went while its batches were read
                error = problem.code
        if error or partition is None:
            return PartitionData(
                partition_index=asked.partition,
                error_code=self._call.count_error(error),
                high_watermark=-1,
                aborted_transactions=aborted,
                records=b"",
            )
        log, watermark = partition.log, partition.log.watermark
        return PartitionData(
            asked.partition,
            high_watermark=watermark.offset,
            last_stable_offset=watermark.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=aborted,
            records=send.buffers,
        )

    @staticmethod
    def _aborted(partition: Partition, offset: int) -> list[AbortedTransaction]:
        log = partition.log
        return [
            AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in log.aborted_transactions(
                offset, log.last_stable_offset
            )
        ]
