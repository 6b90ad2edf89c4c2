"""OffsetCommit, OffsetFetch, OffsetDelete, in every version."""

from __future__ import annotations

import errno

import pytest

from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.stored.group_records import OffsetKey, decode_key, decode_offset_commit
from tests.support.group_broker import GROUP, GroupBroker
from tests.support.native_broker import CLOCK_START_MS

UNKNOWN_ID = bytes(15) + b"\7"


@pytest.fixture
def broker():
    with GroupBroker() as broker:
        broker.create_topic("logs", 3)
        yield broker


# --- OffsetCommit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 11))
def test_given_each_version_of_commit_when_committed_then_stored_and_fetched(broker, version):
    answer = broker.commit({0: 7, 2: 9}, version=version, metadata="m").response

    (topic,) = answer.topics
    assert topic.name == ("logs" if version < 10 else "")
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, 0),
        (2, 0),
    ]
    assert broker.committed(0, 1, 2) == [7, -1, 9]
    keys = [decode_key(record.key) for record in broker.records()]
    assert keys == [OffsetKey(GROUP, "logs", 0), OffsetKey(GROUP, "logs", 2)]
    value = decode_offset_commit(broker.records()[0].value)
    assert (value.offset, value.metadata) == (7, "m")
    assert value.commit_timestamp == CLOCK_START_MS


def test_given_a_commit_when_its_record_is_not_synced_then_neither_answered_nor_shown():
    with GroupBroker(hold_flush=True) as broker:
        broker.create_topic("logs", 1)
        broker.commit({0: 1})
        broker.flushes.follow()
        broker.loop.settle()
        broker.flushes.is_following = False

        sent = broker.commit({0: 2})
        shown = broker.committed(0)
        waiting, pauses = sent.is_waiting, sent.pauses_reading
        broker.flushes.release()
        broker.loop.settle()

        assert (shown, waiting, pauses) == ([1], True, True)
        assert sent.response.topics[0].partitions[0].error_code == E.NONE
        assert broker.committed(0) == [2]
        broker.flushes.follow()


def test_given_a_disk_that_takes_too_long_when_committed_then_told_in_time_and_it_holds_later():
    with GroupBroker(hold_flush=True) as broker:
        broker.create_topic("logs", 1)
        sent = broker.commit({0: 2})

        broker.loop.advance(5_100)
        (partition,) = sent.response.topics[0].partitions
        before = broker.committed(0)
        broker.flushes.follow()
        broker.loop.settle()

        assert (partition.error_code, before) == (E.COORDINATOR_NOT_AVAILABLE, [-1])
        assert broker.committed(0) == [2]


def test_given_a_full_disk_when_committed_then_refused_and_the_old_offset_holds(broker):
    broker.commit({0: 1})
    broker.disk.fail("write", OSError(errno.ENOSPC, "No space left"), times=9)

    refused = broker.commit_errors({0: 2})
    broker.disk._faults.clear()

    assert refused == [E.NOT_COORDINATOR]
    assert broker.committed(0) == [1]
    assert broker.commit_errors({0: 3}) == [E.NONE]
    assert broker.committed(0) == [3]


def test_given_a_topic_that_cannot_be_made_when_committed_then_refused_and_made_later(broker):
    broker.disk.fail("make_directory", OSError(errno.ENOSPC, "No space left"), times=9)

    refused = broker.commit_errors({0: 2})
    broker.disk._faults.clear()

    assert refused == [E.NOT_COORDINATOR]
    assert broker.listed() == {}
    assert broker.commit_errors({0: 2}) == [E.NONE]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation_id_or_member_epoch": 2}, E.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id_or_member_epoch": -1}, E.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "static"}, E.UNKNOWN_MEMBER_ID),
        ({}, E.NONE),
    ],
    ids=str,
)
def test_given_a_group_with_members_when_one_commits_then_it_must_be_of_the_generation(
    broker, fields, error
):
    member = broker.member()
    by = {"member_id": member, "generation_id_or_member_epoch": 1, **fields}

    assert broker.commit_errors({0: 5, 1: 6}, **by) == [error, error]
    assert broker.committed(0) == [5 if error == E.NONE else -1]


def test_given_a_rebalance_when_members_commit_then_in_the_old_generation_until_the_new_begins(
    broker,
):
    member = broker.member()
    by = {"member_id": member, "generation_id_or_member_epoch": 1}
    broker.join(broker.join().response.member_id)
    during = broker.commit_errors({0: 5}, **by)

    broker.join(member)
    after = broker.commit_errors({0: 6}, **by)
    early = broker.commit_errors({0: 6}, member_id=member, generation_id_or_member_epoch=2)

    assert (during, after, early) == (
        [E.NONE], [E.ILLEGAL_GENERATION], [E.REBALANCE_IN_PROGRESS],
    )  # fmt: skip


def test_given_a_commit_when_made_then_it_is_a_sign_of_life(broker):
    member = broker.member()
    for offset in range(4):
        broker.loop.advance(9_000)
        errors = broker.commit_errors(
            {0: offset}, member_id=member, generation_id_or_member_epoch=1
        )
        assert errors == [E.NONE]


@pytest.mark.parametrize(("version", "error"), [(8, 22), (9, 69)])
def test_given_no_group_when_a_generation_commits_then_it_is_told_so(broker, version, error):
    by = {"member_id": "m", "generation_id_or_member_epoch": 4}

    assert broker.commit_errors({0: 1}, version=version, **by) == [error]
    assert broker.listed() == {}


def test_given_wrong_partitions_when_committed_then_each_has_its_error_and_the_rest_holds(broker):
    partitions = [
        OffsetCommitRequestPartition(0, 5, committed_metadata="x" * 4_096),
        OffsetCommitRequestPartition(1, 5, committed_metadata="x" * 4_097),
        OffsetCommitRequestPartition(3, 5),
        OffsetCommitRequestPartition(-1, 5),
        OffsetCommitRequestPartition(2, 6, committed_metadata=None),
    ]
    topics = [
        OffsetCommitRequestTopic("logs", partitions=partitions),
        OffsetCommitRequestTopic("none", partitions=partitions[:1]),
    ]

    answer = broker.answer(OffsetCommitRequest(group_id=GROUP, topics=topics), 9)

    errors = [[each.error_code for each in topic.partitions] for topic in answer.topics]
    missing = E.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [
        [E.NONE, E.OFFSET_METADATA_TOO_LARGE, missing, missing, E.NONE],
        [missing],
    ]
    assert broker.committed(0, 1, 2) == [5, -1, 6]
    assert broker.kafka_errors("offset_commit") == {missing: 3, E.OFFSET_METADATA_TOO_LARGE: 1}


def test_given_an_unknown_topic_id_when_committed_and_fetched_then_unknown(broker):
    topics = [
        OffsetCommitRequestTopic(
            topic_id=UNKNOWN_ID, partitions=[OffsetCommitRequestPartition(0, 1)]
        )
    ]
    asked = [OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[0])]

    committed = broker.answer(OffsetCommitRequest(group_id=GROUP, topics=topics), 10)
    fetched = broker.answer(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(GROUP, topics=asked)]), 10
    )

    (answered,) = committed.topics
    assert (answered.topic_id, answered.partitions[0].error_code) == (
        UNKNOWN_ID, E.UNKNOWN_TOPIC_ID,
    )  # fmt: skip
    (found,) = fetched.groups[0].topics
    (partition,) = found.partitions
    assert (found.topic_id, partition.committed_offset) == (UNKNOWN_ID, -1)
    assert partition.error_code == E.UNKNOWN_TOPIC_ID


def test_given_a_commit_beyond_the_batch_bound_when_made_then_refused():
    with GroupBroker(settings={"topics.max_message_bytes": 3_000}) as broker:
        broker.create_topic("logs", 1)

        assert broker.commit_errors({0: 1}, metadata="x" * 4_000) == [E.INVALID_COMMIT_OFFSET_SIZE]
        assert broker.listed() == {}


def test_given_as_many_groups_as_may_be_when_another_commits_then_refused():
    with GroupBroker(settings={"groups.groups_max": 1}) as broker:
        broker.create_topic("logs", 1)
        broker.commit({0: 1}, group="first")

        assert broker.commit_errors({0: 1}, group="second") == [E.POLICY_VIOLATION]


def test_given_nothing_to_commit_when_asked_then_an_empty_answer(broker):
    answer = broker.answer(OffsetCommitRequest(group_id=GROUP), 9)

    assert answer.topics == []
    assert broker.listed() == {}


# --- OffsetFetch ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 8))
def test_given_each_version_of_fetch_when_one_group_is_asked_for_then_its_offsets(broker, version):
    broker.commit({0: 7}, metadata="m")
    asked = [OffsetFetchRequestTopic("logs", [0, 1]), OffsetFetchRequestTopic("none", [0])]

    answer = broker.answer(OffsetFetchRequest(group_id=GROUP, topics=asked), version)

    logs, none = answer.topics
    assert answer.error_code == E.NONE
    assert [(p.partition_index, p.committed_offset, p.metadata) for p in logs.partitions] == [
        (0, 7, "m"),
        (1, -1, ""),
    ]
    assert [(p.committed_offset, p.error_code) for p in none.partitions] == [(-1, E.NONE)]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_given_each_version_of_fetch_when_groups_are_asked_for_then_each_ones(broker, version):
    broker.commit({0: 7}, group="a")
    broker.commit({1: 8}, group="b")
    topic_id = broker.manager.topic("logs").topic_id.bytes
    asked = [OffsetFetchRequestTopics("logs", topic_id, [0, 1])]
    groups = [OffsetFetchRequestGroup(name, topics=asked) for name in ("a", "b", "none")]
    groups.append(OffsetFetchRequestGroup("a", "member", 7, topics=None))

    answer = broker.answer(OffsetFetchRequest(groups=groups), version)

    assert [group.group_id for group in answer.groups] == ["a", "b", "none", "a"]
    found = [
        [(p.partition_index, p.committed_offset) for t in group.topics for p in t.partitions]
        for group in answer.groups
    ]
    assert found == [[(0, 7), (1, -1)], [(0, -1), (1, 8)], [(0, -1), (1, -1)], [(0, 7)]]
    named = {(topic.name, topic.topic_id) for group in answer.groups for topic in group.topics}
    assert named == ({("logs", bytes(16))} if version < 10 else {("", topic_id)})


@pytest.mark.parametrize("version", [2, 7])
def test_given_all_topics_when_fetched_then_what_is_committed(broker, version):
    broker.commit({1: 7, 0: 6})

    answer = broker.answer(OffsetFetchRequest(group_id=GROUP, topics=None), version)

    (topic,) = answer.topics
    assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(0, 6), (1, 7)]


def test_given_a_leader_epoch_when_committed_then_fetched_again(broker):
    partition = OffsetCommitRequestPartition(0, 5, committed_leader_epoch=4)
    topics = [OffsetCommitRequestTopic("logs", partitions=[partition])]
    broker.answer(OffsetCommitRequest(group_id=GROUP, topics=topics), 6)

    asked = [OffsetFetchRequestTopic("logs", [0, 1])]
    answer = broker.answer(OffsetFetchRequest(group_id=GROUP, topics=asked), 5)

    assert [p.committed_leader_epoch for p in answer.topics[0].partitions] == [4, -1]


# --- OffsetDelete ---------------------------------------------------------------------------------


def deleted(broker, *numbers, topic="logs"):
    partitions = [OffsetDeleteRequestPartition(number) for number in numbers]
    request = OffsetDeleteRequest(GROUP, [OffsetDeleteRequestTopic(topic, partitions)])
    answer = broker.answer(request, 0)
    return answer.error_code, [p.error_code for t in answer.topics for p in t.partitions]


def test_given_a_group_without_members_when_offsets_are_deleted_then_they_are_gone(broker):
    broker.commit({0: 7, 1: 8})

    assert deleted(broker, 0, 2, 9) == (E.NONE, [E.NONE, E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION])
    assert broker.committed(0, 1) == [-1, 8]
    assert broker.records()[-1].value is None


def test_given_no_group_when_offsets_are_deleted_then_not_found(broker):
    assert deleted(broker, 0) == (E.GROUP_ID_NOT_FOUND, [])


def test_given_no_group_id_when_offsets_are_deleted_then_invalid(broker):
    broker.commit({0: 7}, group="")

    answer = broker.answer(OffsetDeleteRequest("", [OffsetDeleteRequestTopic("logs", [])]), 0)

    assert answer.error_code == E.INVALID_GROUP_ID


def test_given_consumers_when_offsets_of_what_they_read_are_deleted_then_subscribed(broker):
    broker.create_topic("other", 1)
    member = broker.member()
    by = {"member_id": member, "generation_id_or_member_epoch": 1}
    broker.commit({0: 7}, **by)
    broker.commit({0: 8}, topic="other", **by)

    assert deleted(broker, 0) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC])
    assert deleted(broker, 0, topic="other") == (E.NONE, [E.NONE])
    assert broker.committed(0) == [7]
    assert broker.committed(0, topic="other") == [-1]


def test_given_members_of_another_kind_when_offsets_are_deleted_then_not_empty(broker):
    broker.member(protocol_type="connect")

    assert deleted(broker, 0) == (E.NON_EMPTY_GROUP, [])
