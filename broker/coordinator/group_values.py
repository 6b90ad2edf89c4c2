"""Group values: groups and offsets to the records that keep them, and back."""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordinator.committed_offsets import CommittedOffset, Place
from broker.coordinator.group import Group, GroupState
from broker.coordinator.member import Member
from broker.coordinator.offsets_topic import GroupRecord
from protocol.stored.group_records import (
    GroupMetadataValue,
    GroupRecordMember,
    OffsetCommitValue,
    encode_group_key,
    encode_group_metadata,
    encode_offset_commit,
    encode_offset_key,
)

__all__ = [
    "fill_group",
    "group_record",
    "group_tombstone",
    "offset_from_value",
    "offset_record",
    "offset_tombstone",
]


def group_record(group: Group, assignments: Mapping[str, bytes]) -> GroupRecord:
    """Return what keeps a group as it is, with these assignments by member id.

    Raises:
        StoredFormatError: something in it is too long to be written.
    """
    members = [
        GroupRecordMember(
            member_id=each.member_id,
            group_instance_id=each.instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout=each.rebalance_timeout_ms,
            session_timeout=each.session_timeout_ms,
            subscription=each.metadata_for(group.protocol_name),
            assignment=assignments.get(each.member_id, b""),
        )
        for each in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_since_ms,
        members=members,
    )
    return encode_group_key(group.group_id), encode_group_metadata(value)


def group_tombstone(group_id: str) -> GroupRecord:
    """Return what deletes a group."""
    return encode_group_key(group_id), None


def fill_group(group: Group, value: GroupMetadataValue) -> None:
    """Make a group what was kept of it: with members it is stable; their sessions begin anew."""
    group.state_since_ms = value.current_state_timestamp
    group.is_stored = True
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    for each in value.members:
        rebalance_timeout_ms = each.rebalance_timeout
        if rebalance_timeout_ms < 0:
            rebalance_timeout_ms = each.session_timeout
        member = Member(
            each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            session_timeout_ms=each.session_timeout,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocols=((value.protocol or "", each.subscription),),
            assignment=each.assignment,
        )
        group.add(member)
    if group.members:
        group.state = GroupState.STABLE
        if group.leader_id not in group.members:
            group.leader_id = next(iter(group.members))
    else:
        group.leader_id = None


def offset_record(group_id: str, place: Place, committed: CommittedOffset) -> GroupRecord:
    """Return what keeps a committed offset.

    Raises:
        StoredFormatError: something in it is too long to be written.
    """
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return encode_offset_key(group_id, *place), encode_offset_commit(value)


def offset_tombstone(group_id: str, place: Place) -> GroupRecord:
    """Return what deletes a committed offset."""
    return encode_offset_key(group_id, *place), None


def offset_from_value(value: OffsetCommitValue) -> CommittedOffset:
    """Return a committed offset as it was kept."""
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )
