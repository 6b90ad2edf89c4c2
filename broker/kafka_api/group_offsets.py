"""GroupOffsetsHandler: OffsetCommit, OffsetFetch, OffsetDelete: how far groups have come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.coordinator.committed_offsets import CommittedOffset, Place
from broker.coordinator.offset_commits import Committer
from broker.kafka_api.call import Call
from broker.kafka_api.group_answer import answer_when_told
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.kafka.message import NO_UUID, Struct
from protocol.limits import INT64_MAX

if TYPE_CHECKING:
    from broker.coordinator.group import Group
    from broker.kafka_api.kafka_api import KafkaApi

TOPIC_IDS_FROM_VERSION: Final = 10
"""Of OffsetCommit and OffsetFetch."""
SEVERAL_GROUPS_FROM_VERSION: Final = 8
ERROR_OF_ALL_FROM_VERSION: Final = 2
"""OffsetFetch: from here on an error that all have stands beside the topics."""
COMMITS_PER_TURN: Final = 400
"""About 10 us each."""
ENTRIES_PER_STEP: Final = 1_000
NO_OFFSET: Final = -1


class _Asked(NamedTuple):
    """One topic of a request, by its name and id here; None: there is no such topic."""

    name: str | None
    topic_id: bytes | None
    error: ErrorCode = ErrorCode.NONE


class _Left:
    """How far an answer may go: in bytes of texts, which can make it a thousand times what was
    asked; and in groups, topics and partitions before others have their turn."""

    __slots__ = ("_count", "bytes")

    def __init__(self, size: int) -> None:
        self.bytes, self._count = size, 0

    def is_turn_over(self) -> bool:
        """Count one thing more; return whether it is others' turn."""
        self._count += 1
        return not self._count % ENTRIES_PER_STEP


class _Part:
    """Offsets that are committed together, and their answers."""

    __slots__ = ("answers", "count", "offsets")

    def __init__(self) -> None:
        self.offsets: dict[Place, CommittedOffset] = {}
        self.answers: list[OffsetCommitResponsePartition] = []
        self.count = 0
        """Of the partitions that were looked at."""

    @property
    def is_full(self) -> bool:
        return self.count >= COMMITS_PER_TURN


class GroupOffsetsHandler:
    """Hands offsets to and from the coordinator; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._coordinator = server, server.coordinator
        self._manager = server.manager
        self._metadata_chars_max = server.config.groups.offset_metadata_max_bytes

    def _topic(self, name: str, topic_id: bytes, call: Call) -> _Asked:
        """Find a topic by what the version of the request says."""
        if call.version < TOPIC_IDS_FROM_VERSION:
            return _Asked(name, self._coordinator.topic_id(name))
        found = self._manager.topic_names_by_id.get(topic_id)
        if found is None:
            return _Asked(None, None, ErrorCode.UNKNOWN_TOPIC_ID)
        return _Asked(found.decode("ascii"), topic_id)

    def _has_partition(self, topic: str, number: int) -> bool:
        partitions = self._manager.partitions_by_topic.get(topic.encode("utf-8"))
        return partitions is not None and 0 <= number < len(partitions)

    # --- OffsetCommit ---------------------------------------------------------------------------

    def offset_commit(self, request: OffsetCommitRequest, call: Call) -> Struct | PendingResponse:
        """Handle an OffsetCommit: it is answered when its records are committed.

        A large one is carried out in parts, a turn of the loop each; whoever commits has to be of
        the group at each of them.
        """
        response = OffsetCommitResponse()
        parts = self._parts(request, response, call)

        def start(tell: Callable[[OffsetCommitResponse], None]) -> None:
            left = 1

            def ended() -> None:
                nonlocal left
                left -= 1
                if not left:
                    self._count_errors(response.topics, call)
                    tell(response)

            def carry_on() -> None:
                nonlocal left
                part = next(parts, None)
                if part is None:
                    ended()
                    return
                left += 1
                self._commit(request, part, call, ended)
                if part.is_full:
                    self._server.loop.call_soon(carry_on)
                else:
                    ended()

            carry_on()

        return answer_when_told(call, start, is_ordered=True)

    def _commit(
        self, request: OffsetCommitRequest, part: _Part, call: Call, ended: Callable[[], None]
    ) -> None:
        def done(error: ErrorCode) -> None:
            for answer in part.answers:
                answer.error_code = error
            ended()

        error = self._coordinator.check(request.group_id)
        if error or not part.offsets:
            done(error)
        else:
            self._coordinator.offsets.commit(_committer(request, call), part.offsets, done)

    def _parts(
        self, request: OffsetCommitRequest, response: OffsetCommitResponse, call: Call
    ) -> Iterator[_Part]:
        """Yield what is to be committed; the response grows with it."""
        now_ms = int(self._server.clock.now_ms())
        retention_ms = request.retention_time_ms
        expires_ms = min(now_ms + retention_ms, INT64_MAX) if retention_ms >= 0 else -1
        part = _Part()
        for topic in request.topics:
            asked = self._topic(topic.name, topic.topic_id, call)
            answered = OffsetCommitResponseTopic(topic.name, topic.topic_id)
            response.topics.append(answered)
            for partition in topic.partitions:
                if part.is_full:
                    yield part
                    part = _Part()
                answer = OffsetCommitResponsePartition(partition.partition_index)
                answered.partitions.append(answer)
                part.count += 1
                answer.error_code = self._commit_error(asked, partition)
                if not answer.error_code and asked.name is not None and asked.topic_id is not None:
                    part.answers.append(answer)
                    part.offsets[asked.name, partition.partition_index] = CommittedOffset(
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                        now_ms,
                        expires_ms,
                        asked.topic_id,
                    )
        yield part

    def _commit_error(self, asked: _Asked, partition: OffsetCommitRequestPartition) -> ErrorCode:
        if asked.name is None:
            return asked.error
        if asked.topic_id is None or not self._has_partition(asked.name, partition.partition_index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if len(partition.committed_metadata or "") > self._metadata_chars_max:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def _count_errors(
        self,
        topics: Sequence[OffsetCommitResponseTopic | OffsetDeleteResponseTopic],
        call: Call,
    ) -> None:
        for topic in topics:
            for partition in topic.partitions:
                call.count_error(partition.error_code)

    # --- OffsetFetch ----------------------------------------------------------------------------

    def offset_fetch(self, request: OffsetFetchRequest, call: Call) -> Struct | PendingResponse:
        """Handle an OffsetFetch. Member id and epoch are for groups of the next generation."""
        return call.answer(self._fetch_steps(request, call))

    def _fetch_steps(self, request: OffsetFetchRequest, call: Call) -> Steps[OffsetFetchResponse]:
        left = _Left(self._server.limits.fetch_response_bytes_max)
        if call.version >= SEVERAL_GROUPS_FROM_VERSION:
            response = OffsetFetchResponse()
            for asked in request.groups:
                response.groups.append((yield from self._fetch_group(asked, call, left)))
            return response
        topics = request.topics
        found = yield from self._fetch_group(
            OffsetFetchRequestGroup(
                request.group_id,
                topics=None
                if topics is None
                else [
                    OffsetFetchRequestTopics(t.name, NO_UUID, t.partition_indexes) for t in topics
                ],
            ),
            call,
            left,
        )
        if found.error_code and call.version < ERROR_OF_ALL_FROM_VERSION:
            return _refused_one_by_one(request, found.error_code)
        return OffsetFetchResponse(
            topics=[_single(topic) for topic in found.topics], error_code=found.error_code
        )

    def _fetch_group(
        self, asked: OffsetFetchRequestGroup, call: Call, left: _Left
    ) -> Steps[OffsetFetchResponseGroup]:
        answer = OffsetFetchResponseGroup(asked.group_id)
        if left.is_turn_over():
            yield None
        error = self._coordinator.check(asked.group_id)
        if error:
            answer.error_code = call.count_error(error)
            return answer
        group = self._coordinator.groups.get(asked.group_id)
        wanted = asked.topics
        if wanted is None:
            wanted = self._everything(group, call)
        for topic in wanted:
            found = self._topic(topic.name, topic.topic_id, call)
            partitions: list[OffsetFetchResponsePartitions] = []
            for number in topic.partition_indexes:
                fetched = _fetched(group, found, number)
                partitions.append(fetched)
                left.bytes -= len(fetched.metadata or "")
                if left.bytes < 0:
                    too_large = call.count_error(ErrorCode.INVALID_REQUEST)
                    return OffsetFetchResponseGroup(asked.group_id, error_code=too_large)
                if left.is_turn_over():
                    yield None
            if left.is_turn_over():
                yield None
            if found.error:
                call.count_error(found.error)
            answer.topics.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
        return answer

    def _everything(self, group: Group | None, call: Call) -> list[OffsetFetchRequestTopics]:
        """Return all that a group has committed, as if it had been asked for."""
        if group is None:
            return []
        wanted = []
        for name, partitions in group.offsets.by_topic.items():
            topic_id = self._coordinator.topic_id(name)
            numbers = sorted(n for n, each in partitions.items() if each.topic_id == topic_id)
            if topic_id is not None and numbers:
                told_id = topic_id if call.version >= TOPIC_IDS_FROM_VERSION else NO_UUID
                wanted.append(OffsetFetchRequestTopics(name, told_id, numbers))
        return wanted

    # --- OffsetDelete ---------------------------------------------------------------------------

    def offset_delete(self, request: OffsetDeleteRequest, call: Call) -> Struct | PendingResponse:
        """Handle an OffsetDelete: it is answered when the tombstones are committed."""
        response = OffsetDeleteResponse()
        open_answers: list[tuple[Place, OffsetDeleteResponsePartition]] = []
        for topic in request.topics:
            answered = OffsetDeleteResponseTopic(topic.name)
            response.topics.append(answered)
            for partition in topic.partitions:
                answer = OffsetDeleteResponsePartition(partition.partition_index)
                answered.partitions.append(answer)
                if self._has_partition(topic.name, partition.partition_index):
                    open_answers.append(((topic.name, partition.partition_index), answer))
                else:
                    answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        def start(tell: Callable[[OffsetDeleteResponse], None]) -> None:
            def done(error: ErrorCode, used: frozenset[Place]) -> None:
                if error:
                    tell(OffsetDeleteResponse(error_code=call.count_error(error)))
                    return
                for place, answer in open_answers:
                    if place in used:
                        answer.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                self._count_errors(response.topics, call)
                tell(response)

            error = self._coordinator.check(request.group_id)
            if not request.group_id:
                error = ErrorCode.INVALID_GROUP_ID
            if error:
                done(error, frozenset())
                return
            places = [place for place, _ in open_answers]
            self._coordinator.offsets.delete(request.group_id, places, done)

        return answer_when_told(call, start, is_ordered=True)


def _committer(request: OffsetCommitRequest, call: Call) -> Committer:
    return Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        call.version,
    )


def _fetched(group: Group | None, asked: _Asked, number: int) -> OffsetFetchResponsePartitions:
    committed = None
    if group is not None and asked.name is not None:
        committed = group.offsets.get(asked.name, number)
    if committed is None or committed.topic_id != asked.topic_id:
        return OffsetFetchResponsePartitions(number, NO_OFFSET, -1, "", asked.error)
    return OffsetFetchResponsePartitions(
        number, committed.offset, committed.leader_epoch, committed.metadata
    )


def _single(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """Return a topic as versions before 8 have it."""
    partitions = [
        OffsetFetchResponsePartition(
            each.partition_index,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata,
            each.error_code,
        )
        for each in topic.partitions
    ]
    return OffsetFetchResponseTopic(topic.name, partitions)


def _refused_one_by_one(request: OffsetFetchRequest, error: int) -> OffsetFetchResponse:
    """Return an error that all have, where there is no place for it but in each."""
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(number, NO_OFFSET, -1, "", error)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ]
    )
