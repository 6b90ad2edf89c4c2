"""ListGroups, DescribeGroups, DeleteGroups, in every version."""

from __future__ import annotations

import pytest

from broker.coordinator.committed_offsets import CommittedOffset
from broker.coordinator.offset_commits import DELETIONS_PER_TURN
from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from protocol.stored.group_records import GroupKey, decode_key
from tests.support.group_broker import GROUP, SUBSCRIPTION, GroupBroker


@pytest.fixture
def broker():
    with GroupBroker() as broker:
        broker.create_topic("logs", 2)
        yield broker


# --- ListGroups -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_given_each_version_of_list_when_asked_then_every_group(broker, version):
    broker.member()
    broker.commit({0: 1}, group="simple")

    answer = broker.answer(ListGroupsRequest(), version)

    state, kind = ("Stable" if version >= 4 else ""), ("classic" if version >= 5 else "")
    found = {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in answer.groups}
    assert found == {
        (GROUP, "consumer", state, kind),
        ("simple", "", state and "Empty", kind),
    }


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"states_filter": ["stable"]}, [GROUP]),
        ({"states_filter": ["Empty", "Dead"]}, ["simple"]),
        ({"states_filter": ["Nonsense"]}, []),
        ({"types_filter": ["Classic"]}, [GROUP, "simple"]),
        ({"types_filter": ["consumer"]}, []),
        ({"types_filter": ["consumer", "classic"], "states_filter": ["EMPTY"]}, ["simple"]),
    ],
    ids=str,
)
def test_given_filters_when_listed_then_those_that_fit(broker, filters, names):
    broker.member()
    broker.commit({0: 1}, group="simple")

    assert sorted(broker.listed(**filters)) == sorted(names)


# --- DescribeGroups -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_given_each_version_of_describe_when_asked_then_members_and_what_they_have(broker, version):
    member_id = broker.member()

    described = broker.described(version=version)

    assert (described.error_code, described.group_state) == (E.NONE, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (member,) = described.members
    assert (member.member_id, member.group_instance_id) == (member_id, None)
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"mine")


@pytest.mark.parametrize("version", [0, 5, 6])
def test_given_no_such_group_when_described_then_dead_and_from_6_on_not_found(broker, version):
    described = broker.described("none", version)

    assert (described.group_id, described.group_state) == ("none", "Dead")
    if version < 6:
        assert (described.error_code, described.error_message) == (E.NONE, None)
    else:
        assert described.error_code == E.GROUP_ID_NOT_FOUND
        assert described.error_message == "there is no group none"


def test_given_a_rebalance_when_described_then_members_without_what_they_say(broker):
    broker.member()
    broker.join(broker.join().response.member_id)

    described = broker.described()

    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in described.members] == [b"", b""]


@pytest.mark.parametrize("asked", [True, False])
def test_given_authorized_operations_when_asked_for_then_all_that_a_group_has(broker, asked):
    broker.member()

    request = DescribeGroupsRequest([GROUP], include_authorized_operations=asked)
    (described,) = broker.answer(request).groups

    operations = (1 << 3) + (1 << 6) + (1 << 8) + (1 << 10) + (1 << 11)
    assert described.authorized_operations == (operations if asked else -(2**31))


# --- DeleteGroups ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_given_each_version_of_delete_when_asked_then_each_group_has_its_error(broker, version):
    broker.member()
    broker.commit({0: 1}, group="simple")

    answer = broker.answer(DeleteGroupsRequest([GROUP, "simple", "none"]), version)

    assert {result.group_id: result.error_code for result in answer.results} == {
        GROUP: E.NON_EMPTY_GROUP,
        "simple": E.NONE,
        "none": E.GROUP_ID_NOT_FOUND,
    }
    assert broker.listed() == {GROUP: "Stable"}
    assert broker.committed(0, group="simple") == [-1]


def test_given_no_groups_when_deleted_then_an_empty_answer(broker):
    assert broker.answer(DeleteGroupsRequest([])).results == []


def test_given_a_group_when_deleted_then_tombstones_for_it_and_all_its_offsets(broker):
    member = broker.member()
    broker.commit({0: 1, 1: 2}, member_id=member, generation_id_or_member_epoch=1)
    broker.leave(member)

    broker.answer(DeleteGroupsRequest([GROUP]))

    last = broker.records()[-3:]
    assert [record.value for record in last] == [None] * 3
    assert decode_key(last[2].key) == GroupKey(GROUP)


def test_given_a_commit_that_is_under_way_when_its_group_is_deleted_then_it_goes_too():
    with GroupBroker(hold_flush=True) as broker:
        broker.create_topic("logs", 1)
        sent = broker.commit({0: 1})
        deleting = broker.ask(DeleteGroupsRequest([GROUP]))
        waiting = deleting.is_waiting

        broker.flushes.follow()
        broker.loop.settle()

        assert waiting
        assert deleting.response.results[0].error_code == E.NONE
        assert sent.response.topics[0].partitions[0].error_code == E.NONE
        assert broker.committed(0) == [-1]
        assert [record.value is None for record in broker.records()] == [False, True, True]


def test_given_a_deletion_under_way_when_its_name_is_used_again_then_the_new_group_stays():
    with GroupBroker(hold_flush=True) as broker:
        broker.create_topic("logs", 1)
        broker.commit({0: 1})
        deleting = broker.ask(DeleteGroupsRequest([GROUP]))
        again = broker.commit({0: 2})

        broker.flushes.follow()
        broker.loop.settle()

        assert deleting.response.results[0].error_code == E.NONE
        assert again.response.topics[0].partitions[0].error_code == E.NONE
        assert broker.committed(0) == [2]


def test_given_a_group_with_many_offsets_when_deleted_then_all_of_them_in_parts(broker):
    broker.commit({0: 1})
    group = broker.kafka.coordinator.groups.get(GROUP)
    for number in range(3 * DELETIONS_PER_TURN):
        group.offsets.put(("logs", number), CommittedOffset(number, -1, "", 0))
    before = len(broker.records())

    sent = broker.ask(DeleteGroupsRequest([GROUP]), 2, settle=False)
    waiting, listed = sent.is_waiting, len(broker.kafka.coordinator.groups)
    broker.loop.settle()

    assert (waiting, listed) == (True, 1)
    assert [result.error_code for result in sent.response.results] == [E.NONE]
    tombstones = broker.records()[before:]
    assert {record.value for record in tombstones} == {None}
    assert len({record.key for record in tombstones}) == 3 * DELETIONS_PER_TURN + 1
    assert broker.listed() == {}


def test_given_a_group_with_many_offsets_when_one_joins_within_its_deletion_then_not_empty(broker):
    broker.commit({0: 1})
    group = broker.kafka.coordinator.groups.get(GROUP)
    for number in range(2 * DELETIONS_PER_TURN):
        group.offsets.put(("logs", number), CommittedOffset(number, -1, "", 0))

    sent = broker.ask(DeleteGroupsRequest([GROUP]), 2, settle=False)
    broker.join(version=3)

    assert [result.error_code for result in sent.response.results] == [E.NON_EMPTY_GROUP]
    assert group.offsets.count == DELETIONS_PER_TURN
