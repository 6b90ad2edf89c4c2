"""A broker with consumers that say what they want in one call, over the Kafka protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.coordinator.offsets_topic import OFFSETS_TOPIC
from protocol.error_codes import ErrorCode
from protocol.kafka.group_admin import DescribeGroupsRequest, ListGroupsRequest
from protocol.kafka.group_membership import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from protocol.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.record_batch import Record, iterate_batches, iterate_records
from protocol.stored.group_records import partition_of_group
from tests.support.kafka_broker import KafkaBroker, KafkaSent

GROUP = "group"
SESSION_MS = 10_000
SUBSCRIPTION = bytes.fromhex("0000 00000001 0004") + b"logs" + bytes.fromhex("ffffffff")
"""What a consumer of the topic `logs` says."""


class GroupBroker(KafkaBroker):
    """A `KafkaBroker`; `__consumer_offsets` has few partitions, for the time tests take."""

    def __init__(self, **options: Any) -> None:
        settings = {"groups.offsets_topic_partitions": 3, **(options.pop("settings", None) or {})}
        super().__init__(settings=settings, **options)

    def __enter__(self) -> GroupBroker:
        self.open()
        return self

    # --- members --------------------------------------------------------------------------------

    def join(self, member_id: str = "", *, version: int | None = None, **fields: Any) -> KafkaSent:
        protocols = fields.pop("protocols", {"range": SUBSCRIPTION})
        group = fields.pop("group", GROUP)
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=fields.pop("session_ms", SESSION_MS),
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocols=[JoinGroupRequestProtocol(*each) for each in protocols.items()],
            **fields,
        )
        return self.ask(request, version)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        version: int | None = None,
        **fields: Any,
    ) -> KafkaSent:
        named = (assignments or {}).items()
        request = SyncGroupRequest(
            group_id=fields.pop("group", GROUP),
            generation_id=generation,
            member_id=member_id,
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocol_name=fields.pop("protocol_name", "range"),
            assignments=[SyncGroupRequestAssignment(*each) for each in named],
            **fields,
        )
        return self.ask(request, version)

    def heartbeat(self, member_id: str, generation: int, group: str = GROUP) -> int:
        answer = self.answer(HeartbeatRequest(group, generation, member_id))
        error: int = answer.error_code
        return error

    def leave(self, *member_ids: str, group: str = GROUP) -> list[int]:
        request = LeaveGroupRequest(group, members=[MemberIdentity(each) for each in member_ids])
        return [member.error_code for member in self.answer(request).members]

    def member(self, group: str = GROUP, **fields: Any) -> str:
        """A group with one member, stable; return its id."""
        first = self.join(group=group, **fields).response
        joined = self.join(first.member_id, group=group, **fields).response
        assert joined.error_code == ErrorCode.NONE
        named = {key: fields[key] for key in ("protocol_type",) if key in fields}
        assignments = {joined.member_id: b"mine"}
        synced = self.sync(
            joined.member_id, joined.generation_id, assignments, group=group, **named
        )
        assert synced.response.assignment == b"mine"
        member_id: str = joined.member_id
        return member_id

    # --- offsets --------------------------------------------------------------------------------

    def commit(
        self,
        offsets: Mapping[int, int],
        *,
        topic: str = "logs",
        group: str = GROUP,
        version: int = 9,
        settle: bool = True,
        metadata: str | None = "",
        **fields: Any,
    ) -> KafkaSent:
        partitions = [
            OffsetCommitRequestPartition(number, offset, committed_metadata=metadata)
            for number, offset in offsets.items()
        ]
        named = OffsetCommitRequestTopic(name=topic, partitions=partitions)
        if version >= 10:
            named.topic_id = self.manager.topic(topic).topic_id.bytes
        request = OffsetCommitRequest(group_id=group, topics=[named], **fields)
        return self.ask(request, version, settle=settle)

    def commit_errors(self, offsets: Mapping[int, int], **fields: Any) -> list[int]:
        (topic,) = self.commit(offsets, **fields).response.topics
        return [each.error_code for each in topic.partitions]

    def committed(self, *numbers: int, topic: str = "logs", group: str = GROUP) -> list[int]:
        """Offsets as OffsetFetch tells them; -1 where there is none."""
        wanted = [OffsetFetchRequestTopics(topic, partition_indexes=list(numbers))]
        answer = self.answer(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=wanted)]), 9
        )
        (found,) = answer.groups
        assert found.error_code == ErrorCode.NONE, found
        return [each.committed_offset for each in found.topics[0].partitions]

    # --- what there is --------------------------------------------------------------------------

    def find(self, group: str = GROUP) -> Any:
        return self.answer(FindCoordinatorRequest(coordinator_keys=[group])).coordinators[0]

    def listed(self, **filters: list[str]) -> dict[str, str]:
        answer = self.answer(ListGroupsRequest(**filters))
        assert answer.error_code == ErrorCode.NONE
        return {group.group_id: group.group_state for group in answer.groups}

    def described(self, group: str = GROUP, version: int = 6) -> Any:
        (described,) = self.answer(DescribeGroupsRequest([group]), version).groups
        return described

    def records(self, group: str = GROUP) -> list[Record]:
        """What `__consumer_offsets` holds in the group's partition."""
        count = self.manager.topic(OFFSETS_TOPIC).partition_count
        log = self.manager.partition(OFFSETS_TOPIC, partition_of_group(group, count)).log
        data = b"".join(piece.read() for piece in log.read(log.log_start_offset, 1 << 30).slices)
        return [
            record
            for position, _ in iterate_batches(data)
            for record in iterate_records(data, position)
        ]
