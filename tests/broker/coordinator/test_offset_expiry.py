"""Offsets that expire: when, whose, and what is left of their groups."""

from __future__ import annotations

import pytest

from broker.coordinator.committed_offsets import CommittedOffset
from broker.coordinator.group import Group, GroupState
from broker.coordinator.offset_commits import expired_places
from protocol.kafka.consumer_protocol import subscribed_topics
from protocol.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.group_broker import GROUP, SUBSCRIPTION, GroupBroker


def group_with(**fields) -> Group:
    """A group that has committed at 1,000 for `logs` and `other`."""
    group = Group(GROUP)
    for name, value in fields.items():
        setattr(group, name, value)
    for topic in ("logs", "other"):
        group.offsets.put((topic, 0), CommittedOffset(5, -1, "", 1_000))
    return group


def expired(group: Group, now_ms: int, *, topics: tuple[str, ...] = ("logs", "other")) -> set[str]:
    return {topic for topic, _ in expired_places(group, now_ms, 100, topics.__contains__)}


BOTH = {"logs", "other"}


@pytest.mark.parametrize(
    ("fields", "first_ms", "gone"),
    [
        ({}, 1_100, BOTH),  # committed without a group: by commit
        ({"protocol_type": "consumer", "state_since_ms": 1_500}, 1_600, BOTH),
        ({"protocol_type": "consumer", "state_since_ms": -1}, 1_100, BOTH),
        (
            {"protocol_type": "consumer", "state": "Stable", "subscribed": frozenset({"logs"})},
            1_100,
            {"other"},
        ),
    ],
    ids=["no group", "empty since", "empty, since when is not known", "not read any more"],
)
def test_given_a_group_when_time_passes_then_offsets_expire_at_their_moment(fields, first_ms, gone):
    if "state" in fields:
        fields = {**fields, "state": GroupState(fields["state"])}
    group = group_with(**fields)

    assert expired(group, first_ms - 1) == set()
    assert expired(group, first_ms) == gone


@pytest.mark.parametrize(
    "fields",
    [
        {"protocol_type": "consumer", "state": GroupState.STABLE, "subscribed": None},
        {"protocol_type": "connect", "state": GroupState.STABLE},
        {
            "protocol_type": "consumer",
            "state": GroupState.PREPARING_REBALANCE,
            "subscribed": frozenset(),
        },
    ],
    ids=["topics unknown", "of another kind", "rebalancing"],
)
def test_given_members_that_may_read_when_time_passes_then_nothing_expires(fields):
    assert expired(group_with(**fields), 10**15) == set()


def test_given_a_topic_that_is_gone_when_looked_at_then_its_offsets_are_too():
    group = group_with(protocol_type="connect", state=GroupState.STABLE)

    assert expired(group, 1_000, topics=("logs",)) == {"other"}


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
    assert subscribed_topics(metadata) == topics
