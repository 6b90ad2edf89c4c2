"""Static members (KIP-345): those that come back under their instance id, and those they fence."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_membership import MemberIdentity
from tests.support.group_machine import REBALANCE_MS, SESSION_MS, GroupMachine


def stable_static(machine: GroupMachine, *instances: str) -> list[str]:
    """A stable group of static members; return their ids in order. The first one leads."""
    ids: list[str] = []
    for instance in instances:
        joined = machine.join(instance=instance)
        for number, member_id in enumerate(ids):
            machine.join(member_id, instance=instances[number])
        ids.append(joined.member_id)
    assignments = {member_id: member_id.encode() for member_id in ids}
    for member_id in ids:
        machine.sync(member_id, assignments=assignments)
    assert machine.group.state == "Stable"
    return ids


def test_given_a_static_member_when_it_joins_then_it_is_in_at_once_under_its_name():
    machine = GroupMachine()

    joined = machine.join(instance="one")

    assert (joined.error, joined.member_id) == (E.NONE, "one-1")
    assert joined.response.members[0].group_instance_id == "one"


def test_given_a_stable_group_when_a_static_member_comes_back_then_nobody_is_disturbed():
    machine = GroupMachine()
    leader, follower = stable_static(machine, "one", "two")
    generation = machine.group.generation

    back = machine.join(instance="two")

    assert (back.response.generation_id, back.response.leader) == (generation, leader)
    assert (back.roster, back.response.skip_assignment) == ([], False)
    assert machine.sync(back.member_id).response.assignment == follower.encode()
    assert machine.heartbeat(leader, instance="one") == E.NONE
    assert machine.group.state == "Stable"
    assert machine.store.saved[-1][2] == {leader: b"one-1", back.member_id: b"two-2"}


@pytest.mark.parametrize("version", [5, 9])
def test_given_a_static_leader_that_comes_back_when_answered_then_it_does_not_assign(version):
    machine = GroupMachine()
    leader, follower = stable_static(machine, "one", "two")

    back = machine.join(instance="one", version=version)

    if version >= 9:
        assert (back.response.leader, back.response.skip_assignment) == (back.member_id, True)
        assert sorted(back.roster) == sorted([follower, back.member_id])
    else:
        assert (back.response.leader, back.response.skip_assignment) == (leader, False)
        assert back.roster == []
    assert machine.group.leader_id == back.member_id


def test_given_a_replaced_member_when_it_goes_on_then_it_is_fenced():
    machine = GroupMachine()
    _, old = stable_static(machine, "one", "two")

    machine.join(instance="two")

    assert machine.heartbeat(old, instance="two") == E.FENCED_INSTANCE_ID
    assert machine.sync(old, group_instance_id="two").error == E.FENCED_INSTANCE_ID
    assert machine.join(old, instance="two").error == E.FENCED_INSTANCE_ID
    assert machine.leave_as(MemberIdentity(old, "two"))[0].error_code == E.FENCED_INSTANCE_ID
    group = machine.group
    assert machine.membership.check_commit(group, old, "two", 2) == E.FENCED_INSTANCE_ID
    assert machine.heartbeat(old) == E.UNKNOWN_MEMBER_ID


def test_given_a_waiting_static_member_when_it_is_replaced_then_its_answers_say_fenced():
    machine = GroupMachine()
    leader, old = stable_static(machine, "one", "two")
    joining = machine.join(old, instance="two", protocols={"range": b"other"})

    back = machine.join(instance="two", protocols={"range": b"other"})
    machine.join(leader, instance="one")

    assert joining.error == E.FENCED_INSTANCE_ID
    assert back.error == E.NONE


def test_given_a_member_that_waits_for_its_assignment_when_replaced_then_fenced_and_a_rebalance():
    machine = GroupMachine()
    leader, old = stable_static(machine, "one", "two")
    machine.join(leader, instance="one")
    machine.join(old, instance="two")
    syncing = machine.sync(old)

    back = machine.join(instance="two")

    assert syncing.error == E.FENCED_INSTANCE_ID
    assert back.is_waiting
    assert machine.group.state == "PreparingRebalance"


def test_given_a_static_member_that_comes_back_otherwise_when_it_joins_then_a_rebalance():
    machine = GroupMachine()
    leader, _ = stable_static(machine, "one", "two")

    back = machine.join(instance="two", protocols={"range": b"", "sticky": b""})
    assert back.error == E.NONE  # what is selected stays the same
    changed = machine.join(instance="three", protocols={"range": b"", "sticky": b""})

    assert changed.is_waiting
    assert machine.heartbeat(leader, instance="one") == E.REBALANCE_IN_PROGRESS


def test_given_a_replacement_that_cannot_be_saved_when_answered_then_the_old_one_goes_on():
    machine = GroupMachine()
    leader, old = stable_static(machine, "one", "two")
    machine.store.error = E.NOT_COORDINATOR

    back = machine.join(instance="two", protocols={"range": b"other"}, session_ms=SESSION_MS + 1)

    assert back.error == E.NOT_COORDINATOR
    assert machine.heartbeat(old, instance="two") == E.NONE
    assert machine.group.members[old].protocols == (("range", b"topics"),)
    assert machine.group.members[old].session_timeout_ms == SESSION_MS
    assert set(machine.group.members) == {leader, old}


def test_given_a_replacement_being_saved_when_a_rebalance_begins_then_it_joins_again():
    machine = GroupMachine()
    leader, _ = stable_static(machine, "one", "two")
    machine.store.is_held = True

    back = machine.join(instance="two")
    machine.join(leader, instance="one")
    machine.store.release()

    assert back.error == E.REBALANCE_IN_PROGRESS
    assert machine.join(back.member_id, instance="two").error == E.NONE


def test_given_a_replacement_being_saved_when_it_is_replaced_itself_then_it_is_fenced():
    machine = GroupMachine()
    stable_static(machine, "one", "two")
    machine.store.is_held = True

    first = machine.join(instance="two")
    second = machine.join(instance="two")
    machine.store.release()
    machine.store.release()

    assert first.error == E.FENCED_INSTANCE_ID
    assert second.error == E.NONE


def test_given_static_members_when_they_miss_a_rebalance_then_they_stay_for_their_session():
    machine = GroupMachine()
    leader, absent = stable_static(machine, "one", "two")
    machine.join(leader, instance="one", session_ms=1_000_000)
    machine.group.members[absent].session_timeout_ms = 1_000_000
    machine.heartbeat(absent, instance="two")

    machine.advance(REBALANCE_MS)

    assert machine.group.state == "CompletingRebalance"
    assert set(machine.group.members) == {leader, absent}


def test_given_only_silent_static_members_when_a_rebalance_ends_then_it_waits_for_sessions():
    machine = GroupMachine()
    leader, other = stable_static(machine, "one", "two")
    for member in machine.group.members.values():
        member.session_timeout_ms = 200_000
    machine.heartbeat(leader, instance="one")
    machine.heartbeat(other, instance="two")
    machine.join(version=0)
    machine.leave(f"client-{machine.given_out}")

    machine.advance(REBALANCE_MS + 1)
    assert machine.group.state == "PreparingRebalance"
    machine.advance(200_000)

    assert machine.group.state == "Empty"


def test_given_an_operator_when_an_instance_is_removed_by_name_then_it_is_out():
    machine = GroupMachine()
    leader, _ = stable_static(machine, "one", "two")

    (answer,) = machine.leave_as(MemberIdentity("", "two"))

    assert (answer.member_id, answer.group_instance_id, answer.error_code) == ("", "two", E.NONE)
    assert list(machine.group.members) == [leader]


def test_given_an_unknown_instance_when_it_beats_then_unknown():
    machine = GroupMachine()
    leader, _ = stable_static(machine, "one", "two")

    assert machine.heartbeat(leader, instance="nine") == E.UNKNOWN_MEMBER_ID
