"""Offsets that expire: when, whose, and what is left of their groups."""

from __future__ import annotations

import struct

import pytest

from broker.coordinator.committed_offsets import CommittedOffset
from broker.coordinator.group import Group, GroupState
from broker.coordinator.group_coordinator import _Breaks
from broker.coordinator.offset_expiry import expired_places, stranger_places
from protocol.kafka.consumer_protocol import TOPICS_MAX, subscribed_topics
from protocol.kafka.group_admin import DeleteGroupsRequest
from protocol.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.kafka.message import NO_UUID
from tests.support.group_broker import GROUP, SUBSCRIPTION, GroupBroker


def group_with(**fields) -> Group:
    """A group that has committed at 1,000 for `logs` and `other`."""
    group = Group(GROUP)
    group.protocol_type = fields.get("protocol_type")
    for name, value in fields.items():
        setattr(group, name, value)
    for topic in ("logs", "other"):
        group.offsets.put((topic, 0), CommittedOffset(5, -1, "", 1_000))
    return group


def expired(
    group: Group,
    now_ms: int,
    *,
    topics: tuple[str, ...] = ("logs", "other"),
    subscribed: frozenset[str] | None = None,
) -> set[str]:
    return {
        place[0]
        for topic in ("logs", "other")
        for place in expired_places(
            group,
            topic,
            NO_UUID if topic in topics else None,
            subscribed,
            now_ms=now_ms,
            retention_ms=100,
        )
    }


BOTH = {"logs", "other"}


@pytest.mark.parametrize(
    ("fields", "first_ms", "gone"),
    [
        ({}, 1_100, BOTH),  # committed without a group: by commit
        ({"protocol_type": "consumer", "state_since_ms": 1_500}, 1_600, BOTH),
        ({"protocol_type": "consumer", "state_since_ms": -1}, 1_100, BOTH),
        ({"protocol_type": "consumer", "state": "Stable"}, 1_100, {"other"}),
    ],
    ids=["no group", "empty since", "empty, since when is not known", "not read any more"],
)
def test_given_a_group_when_time_passes_then_offsets_expire_at_their_moment(fields, first_ms, gone):
    if "state" in fields:
        fields = {**fields, "state": GroupState(fields["state"])}
    group, read = group_with(**fields), frozenset({"logs"})

    assert expired(group, first_ms - 1, subscribed=read) == set()
    assert expired(group, first_ms, subscribed=read) == gone


@pytest.mark.parametrize(
    ("protocol_type", "state", "subscribed"),
    [
        ("consumer", GroupState.STABLE, None),
        ("connect", GroupState.STABLE, None),
        ("consumer", GroupState.PREPARING_REBALANCE, frozenset()),
    ],
    ids=["topics unknown", "of another kind", "rebalancing"],
)
def test_given_members_that_may_read_when_time_passes_then_nothing_expires(
    protocol_type, state, subscribed
):
    group = group_with(protocol_type=protocol_type, state=state)

    assert expired(group, 10**15, subscribed=subscribed) == set()


def test_given_a_topic_that_is_gone_when_looked_at_then_its_offsets_are_too():
    group = group_with(protocol_type="connect", state=GroupState.STABLE)

    assert expired(group, 1_000, topics=("logs",)) == {"other"}


def test_given_another_topic_of_the_name_when_looked_at_then_offsets_of_the_old_one_are_gone():
    group = group_with(protocol_type="connect", state=GroupState.STABLE)
    group.offsets.put(("logs", 0), CommittedOffset(5, -1, "", 1_000, topic_id=b"another topic id"))

    assert expired(group, 1_000) == {"logs"}


def test_given_offsets_of_another_topic_when_looked_for_then_but_for_what_is_committed_anew():
    group = group_with()

    assert stranger_places(group, "logs", NO_UUID) == []
    assert stranger_places(group, "logs", None) == [("logs", 0)]
    group.offsets.begin(("logs", 0))
    assert stranger_places(group, "logs", None) == []


def test_given_an_expiry_that_the_client_chose_when_it_comes_then_it_counts():
    group = Group(GROUP)
    group.offsets.put(("logs", 0), CommittedOffset(5, -1, "", 1_000, 1_010))

    assert expired(group, 1_009) == set()
    assert expired(group, 1_010) == {"logs"}


def test_given_an_offset_that_is_committed_anew_when_looked_at_then_it_stays():
    group = group_with()
    group.offsets.begin(("logs", 0))

    assert expired(group, 10_000) == {"other"}


QUICK = {
    "groups.offsets_retention_ms": 20_000,
    "groups.offsets_retention_check_interval_ms": 1_000,
}


def test_given_a_group_without_members_when_retention_has_passed_then_it_is_gone_for_good():
    with GroupBroker(settings=QUICK) as broker:
        broker.create_topic("logs", 1)
        member = broker.member()
        broker.commit({0: 7}, member_id=member, generation_id_or_member_epoch=1)
        broker.loop.advance(5_000)
        broker.leave(member)

        broker.loop.advance(19_900)
        kept = broker.committed(0)
        broker.loop.advance(3_000)

        assert (kept, broker.committed(0)) == ([7], [-1])
        assert broker.listed() == {}
        assert [record.value for record in broker.records()[-2:]] == [None, None]


def test_given_a_group_with_members_when_retention_has_passed_then_its_offsets_stay():
    with GroupBroker(settings=QUICK) as broker:
        broker.create_topic("logs", 1)
        member = broker.member()
        broker.commit({0: 7}, member_id=member, generation_id_or_member_epoch=1)

        for _ in range(6):
            broker.loop.advance(5_000)
            broker.heartbeat(member, 1)

        assert broker.committed(0) == [7]


def test_given_a_group_that_was_deleted_when_it_is_looked_at_later_then_its_name_is_anothers():
    """Who goes through the groups takes breaks, and may come back to one that is gone."""
    with GroupBroker() as broker:
        broker.create_topic("logs", 1)
        broker.commit({0: 7})
        old = broker.kafka.coordinator.groups.get(GROUP)
        broker.answer(DeleteGroupsRequest([GROUP]))
        broker.commit({0: 8})
        before = len(broker.records())
        broker.loop.run(broker.manager.delete_topic("logs"))
        broker.loop.settle()
        written = len(broker.records()) - before

        assert broker.kafka.coordinator.offsets.forget_strangers(old, "logs") == 1
        broker.loop.settle()
        assert (written, len(broker.records()) - before) == (1, 1)


def test_given_a_rebalance_when_it_ends_while_a_group_is_looked_at_then_what_is_read_is_not_known():
    with GroupBroker(settings={"groups.offsets_retention_ms": 1}) as broker:
        broker.create_topic("other", 1)
        broker.member()
        coordinator = broker.kafka.coordinator
        group = coordinator.groups.get(GROUP)
        other_id = coordinator.topic_id("other")
        group.offsets.put(("other", 0), CommittedOffset(5, -1, "", 0, topic_id=other_id))

        def expired(ends: bool) -> int:
            looking = coordinator._expire_group(group, _Breaks())
            looking.send(None)  # it takes a break
            group.generation += ends
            with pytest.raises(StopIteration) as stopped:
                looking.send(None)
            return stopped.value.value

        assert [expired(ends=True), expired(ends=False)] == [0, 1]


def test_given_a_retention_in_a_commit_when_it_is_over_then_the_offset_is_gone():
    with GroupBroker(settings=QUICK) as broker:
        broker.create_topic("logs", 1)
        topics = [OffsetCommitRequestTopic("logs", partitions=[OffsetCommitRequestPartition(0, 5)])]
        request = OffsetCommitRequest(group_id=GROUP, retention_time_ms=1_000, topics=topics)
        broker.answer(request, 4)

        before = broker.committed(0)
        broker.loop.advance(2_100)

        assert (before, broker.committed(0)) == ([5], [-1])


def test_given_a_retention_without_end_in_a_commit_when_it_is_kept_then_for_as_long_as_can_be():
    with GroupBroker(settings=QUICK) as broker:
        broker.create_topic("logs", 1)
        topics = [OffsetCommitRequestTopic("logs", partitions=[OffsetCommitRequestPartition(0, 5)])]
        request = OffsetCommitRequest(group_id=GROUP, retention_time_ms=2**63 - 1, topics=topics)
        (topic,) = broker.answer(request, 4).topics

        broker.loop.advance(100_000)

        assert topic.partitions[0].error_code == 0
        assert broker.committed(0) == [5]


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (SUBSCRIPTION, {"logs"}),
        (bytes.fromhex("0003 00000000 ffffffff"), set()),
        (bytes.fromhex("0000 00000002 0001 61"), None),
        (bytes.fromhex("0000 7fffffff"), None),
        (bytes.fromhex("0000 00000001 ffff"), None),
        (bytes.fromhex("0000 00000001 0001 ff"), None),
        (b"", None),
    ],
    ids=range(7),
)
def test_given_a_members_metadata_when_read_then_its_topics_or_none(metadata, topics):
    assert subscribed_topics([metadata]) == topics


def consumer_of(*topics: str, user_data: bytes = b"") -> bytes:
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return (
        struct.pack(">hi", 3, len(topics)) + names + struct.pack(">i", len(user_data)) + user_data
    )


def test_given_members_when_their_metadata_is_read_then_the_topics_of_all():
    members = [
        consumer_of("a", "b", user_data=b"1"),
        consumer_of("a", "b", user_data=b"2"),
        consumer_of("a", "c"),
        consumer_of(),
        consumer_of("d"),
    ]

    assert subscribed_topics(members) == {"a", "b", "c", "d"}
    assert subscribed_topics([*members, b""]) is None


def test_given_more_topics_than_can_be_read_in_one_go_when_read_then_none_but_the_same_count_once():
    names = [f"topic-{number}" for number in range(TOPICS_MAX)]
    same = consumer_of(*names)

    assert subscribed_topics([same, same, same]) == frozenset(names)
    assert subscribed_topics([same, consumer_of("one more")]) is None
