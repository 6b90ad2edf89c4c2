"""FindCoordinator, JoinGroup, SyncGroup, Heartbeat, LeaveGroup, in every version."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_membership import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from tests.support.group_broker import GROUP, GroupBroker
from tests.support.kafka_broker import ADVERTISED

# --- FindCoordinator ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_given_a_group_when_its_coordinator_is_looked_for_then_it_is_this_broker(version):
    with GroupBroker() as broker:
        request = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"])

        answer = broker.answer(request, version)

        found = answer.coordinators if version >= 4 else [answer]
        told = [(each.error_code, each.node_id, (each.host, each.port)) for each in found]
        assert told == [(0, broker.kafka.node_id, ADVERTISED)] * len(found)
        assert [each.key for each in answer.coordinators] == (["g", "h"] if version >= 4 else [])


@pytest.mark.parametrize("version", [1, 3, 4, 6])
@pytest.mark.parametrize("key_type", [1, 2, 9])
def test_given_keys_of_another_type_when_looked_for_then_an_error_with_a_reason(version, key_type):
    with GroupBroker() as broker:
        request = FindCoordinatorRequest(key="t", key_type=key_type, coordinator_keys=["t"])

        answer = broker.answer(request, version)

        (found,) = answer.coordinators if version >= 4 else [answer]
        assert (found.error_code, found.node_id, found.host) == (E.INVALID_REQUEST, -1, "")
        assert found.error_message
        assert broker.kafka_errors("find_coordinator") == {E.INVALID_REQUEST: 1}


# --- a member's life ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_given_each_version_of_join_when_joined_then_member_and_generation(version):
    with GroupBroker() as broker:
        first = broker.join(version=version).response
        if version >= 4:
            assert first.error_code == E.MEMBER_ID_REQUIRED
            assert first.protocol_name == ("" if version < 7 else None)
            first = broker.join(first.member_id, version=version).response

        assert (first.error_code, first.generation_id) == (E.NONE, 1)
        assert first.leader == first.member_id
        assert first.member_id.startswith("tests-")
        assert [each.member_id for each in first.members] == [first.member_id]
        assert first.protocol_name == "range"
        assert first.protocol_type == ("consumer" if version >= 7 else None)
        assert first.skip_assignment is False


@pytest.mark.parametrize("version", range(6))
def test_given_each_version_of_sync_when_synced_then_the_assignment(version):
    with GroupBroker() as broker:
        member = broker.join(version=0).response.member_id

        answer = broker.sync(member, 1, {member: b"all"}, version=version).response

        assert (answer.error_code, answer.assignment) == (E.NONE, b"all")
        expected = ("consumer", "range") if version >= 5 else (None, None)
        assert (answer.protocol_type, answer.protocol_name) == expected


@pytest.mark.parametrize("version", range(5))
def test_given_each_version_of_heartbeat_when_sent_then_none_or_its_error(version):
    with GroupBroker() as broker:
        member = broker.member()

        answers = [
            broker.answer(HeartbeatRequest(GROUP, generation, member), version).error_code
            for generation in (1, 7)
        ]

        assert answers == [E.NONE, E.ILLEGAL_GENERATION]
        assert broker.kafka_errors("heartbeat") == {E.ILLEGAL_GENERATION: 1}


@pytest.mark.parametrize("version", range(6))
def test_given_each_version_of_leave_when_left_then_each_has_its_error(version):
    with GroupBroker() as broker:
        member = broker.member()
        asked = [MemberIdentity("nobody"), MemberIdentity(member)]

        unknown = broker.answer(LeaveGroupRequest(GROUP, "nobody", asked[:1]), version)
        left = broker.answer(LeaveGroupRequest(GROUP, member, asked[1:]), version)

        if version < 3:
            assert (unknown.error_code, left.error_code) == (E.UNKNOWN_MEMBER_ID, E.NONE)
        else:
            errors = [unknown.members[0].error_code, left.members[0].error_code]
            assert errors == [E.UNKNOWN_MEMBER_ID, E.NONE]
            assert (unknown.error_code, left.error_code) == (E.NONE, E.NONE)
        assert broker.described().group_state == "Empty"


def test_given_no_group_id_when_anything_is_asked_then_invalid():
    with GroupBroker() as broker:
        requests = (
            JoinGroupRequest(session_timeout_ms=10_000),
            SyncGroupRequest(protocol_type="consumer", protocol_name="range"),
            HeartbeatRequest(),
            LeaveGroupRequest(),
        )

        errors = [broker.answer(request).error_code for request in requests]

        assert errors == [E.INVALID_GROUP_ID] * 4


def test_given_a_sync_without_protocol_when_it_must_have_one_then_inconsistent():
    with GroupBroker() as broker:
        member = broker.member()

        missing = broker.sync(member, 1, protocol_name=None).response.error_code
        old = broker.sync(member, 1, protocol_name=None, version=4).response.error_code

        assert (missing, old) == (E.INCONSISTENT_GROUP_PROTOCOL, E.NONE)


def test_given_a_join_that_waits_when_others_are_asked_for_then_it_keeps_its_place():
    with GroupBroker() as broker:
        member = broker.member()
        newcomer = broker.join(broker.join().response.member_id)

        waiting = newcomer.is_waiting, newcomer.pauses_reading
        told = broker.heartbeat(member, 1)
        rejoined = broker.join(member)

        assert waiting == (True, False)
        assert told == E.REBALANCE_IN_PROGRESS
        assert newcomer.response.generation_id == rejoined.response.generation_id == 2
        assert len(rejoined.response.members) == 2


def test_given_a_client_that_goes_away_when_it_waits_then_its_place_is_kept_for_a_time():
    with GroupBroker(settings={"groups.new_member_join_timeout_ms": 20_000}) as broker:
        member = broker.member()
        newcomer = broker.join(broker.join().response.member_id)

        newcomer.abandon()
        before = len(broker.described().members)
        for _ in range(4):
            broker.loop.advance(5_010)
            broker.heartbeat(member, 1)

        assert (before, len(broker.described().members)) == (2, 1)


def test_given_silence_when_a_session_ends_then_the_broker_notices_by_itself():
    with GroupBroker() as broker:
        broker.member()

        broker.loop.advance(10_010)

        assert broker.described().group_state == "Empty"


def test_given_a_stop_when_members_wait_then_they_are_let_go_and_later_ones_too():
    with GroupBroker() as broker:
        member = broker.member()
        waiting = broker.join(broker.join().response.member_id)

        broker.kafka.coordinator.drain()

        assert waiting.response.error_code == E.NOT_COORDINATOR
        assert broker.heartbeat(member, 1) == E.COORDINATOR_NOT_AVAILABLE


def test_given_clients_when_described_then_their_ids_and_hosts():
    with GroupBroker() as broker:
        broker.member()

        (member,) = broker.described().members

        assert (member.client_id, member.client_host) == ("tests", "/203.0.113.9")
