"""An OffsetCommit that is too large for one turn of the event loop."""

from __future__ import annotations

import pytest

from broker.kafka_api.group_offsets import COMMITS_PER_TURN
from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.group_broker import GROUP, GroupBroker


@pytest.fixture
def broker():
    with GroupBroker() as broker:
        broker.create_topic("logs", 3)
        yield broker


def large_commit(**fields) -> OffsetCommitRequest:
    """In three parts; each of the three partitions many times."""
    count = 2 * COMMITS_PER_TURN + 1
    partitions = [OffsetCommitRequestPartition(number % 3, number) for number in range(count)]
    topics = [OffsetCommitRequestTopic("logs", partitions=partitions)]
    return OffsetCommitRequest(group_id=GROUP, topics=topics, **fields)


def test_given_a_large_commit_when_made_then_in_parts_and_answered_when_all_are_committed(broker):
    broker.commit({0: 1})
    group = broker.kafka.coordinator.groups.get(GROUP)

    sent = broker.ask(large_commit(), 9, settle=False)
    first_part = dict(group.offsets._pending)
    waiting = sent.is_waiting
    broker.loop.settle()

    assert (len(first_part), set(first_part.values()), waiting) == (3, {1}, True)
    (topic,) = sent.response.topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (number % 3, E.NONE) for number in range(2 * COMMITS_PER_TURN + 1)
    ]
    last = 2 * COMMITS_PER_TURN
    assert broker.committed(last % 3) == [last]


def test_given_a_large_commit_when_a_rebalance_ends_within_it_then_the_rest_is_refused(broker):
    member = broker.member()
    by = {"member_id": member, "generation_id_or_member_epoch": 1}

    sent = broker.ask(large_commit(**by), 9, settle=False)
    broker.join(member)
    (topic,) = sent.response.topics

    errors = [each.error_code for each in topic.partitions]
    assert errors[:COMMITS_PER_TURN] == [E.NONE] * COMMITS_PER_TURN
    assert set(errors[COMMITS_PER_TURN:]) == {E.ILLEGAL_GENERATION}
