"""Offsets in topics that were deleted, and perhaps made again under their names."""

from __future__ import annotations

import pytest

from protocol.kafka.group_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.support.group_broker import GROUP, GroupBroker


@pytest.fixture
def broker():
    with GroupBroker() as broker:
        broker.create_topic("logs", 3)
        yield broker


def test_given_a_topic_when_it_is_deleted_then_its_offsets_are_too(broker):
    broker.create_topic("other", 1)
    broker.commit({0: 7, 1: 8})
    broker.commit({0: 9}, topic="other")

    broker.loop.run(broker.manager.delete_topic("logs"))
    broker.create_topic("logs", 3)

    assert broker.committed(0, 1) == [-1, -1]
    assert broker.committed(0, topic="other") == [9]
    assert [record.value for record in broker.records()[-2:]] == [None, None]


def all_committed(broker: GroupBroker, version: int) -> list[int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=None)])
    (group,) = broker.answer(request, version).groups
    return [each.committed_offset for topic in group.topics for each in topic.partitions]


@pytest.mark.parametrize("version", [9, 10])
def test_given_a_topic_that_is_made_again_when_tombstones_are_not_yet_written_then_no_old_offsets(
    broker, version
):
    broker.commit({0: 7, 1: 8})
    broker.manager.on_topic_deleted = lambda name: None

    broker.loop.run(broker.manager.delete_topic("logs"))
    gone = broker.committed(0), all_committed(broker, version)
    broker.create_topic("logs", 3)
    before = broker.committed(0, 1), all_committed(broker, version)
    broker.commit({1: 2})

    assert gone == ([-1], [])
    assert before == ([-1, -1], [])
    assert (broker.committed(0, 1), all_committed(broker, version)) == ([-1, 2], [2])
