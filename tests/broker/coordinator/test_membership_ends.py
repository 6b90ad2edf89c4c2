"""Groups: members that rejoin, whose sessions end, and that leave."""

from __future__ import annotations

from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_membership import MemberIdentity
from tests.support.group_machine import GROUP, REBALANCE_MS, SESSION_MS, GroupMachine

# --- rejoining ------------------------------------------------------------------------------------


def test_given_a_stable_group_when_a_follower_rejoins_unchanged_then_nothing_happens():
    machine = GroupMachine()
    leader, follower = machine.stable(2)

    joined = machine.join(follower)

    assert (joined.response.generation_id, joined.response.leader) == (1, leader)
    assert joined.roster == []
    assert machine.group.state == "Stable"


def test_given_a_stable_group_when_a_follower_brings_other_metadata_then_a_rebalance():
    machine = GroupMachine()
    leader, follower = machine.stable(2)

    joined = machine.join(follower, protocols={"range": b"other topics"})
    told = machine.heartbeat(leader)
    rejoined = machine.join(leader)

    assert told == E.REBALANCE_IN_PROGRESS
    assert (joined.response.generation_id, rejoined.response.generation_id) == (2, 2)
    assert {m.member_id: m.metadata for m in rejoined.response.members} == {
        leader: b"topics",
        follower: b"other topics",
    }


def test_given_a_stable_group_when_the_leader_rejoins_then_a_rebalance():
    machine = GroupMachine()
    leader, follower = machine.stable(2)

    joined = machine.join(leader)
    told = machine.heartbeat(follower)
    machine.join(follower)

    assert told == E.REBALANCE_IN_PROGRESS
    assert (joined.response.generation_id, sorted(joined.roster)) == (2, sorted([leader, follower]))


def test_given_a_generation_when_a_member_missed_the_answer_then_it_gets_it_again():
    machine = GroupMachine()
    ids = [machine.join().member_id for _ in range(2)]
    for member_id in ids:
        machine.join(member_id)

    again = [machine.join(member_id) for member_id in ids]

    assert [each.response.generation_id for each in again] == [1, 1]
    assert [each.roster for each in again] == [ids, []]
    assert machine.group.state == "CompletingRebalance"


def test_given_a_generation_when_a_member_brings_others_then_who_waits_is_told_to_rejoin():
    machine = GroupMachine()
    ids = [machine.join().member_id for _ in range(2)]
    for member_id in ids:
        machine.join(member_id)
    waiting = machine.sync(ids[1])

    machine.join(ids[0], protocols={"range": b"other"})

    assert waiting.error == E.REBALANCE_IN_PROGRESS
    assert machine.group.state == "PreparingRebalance"


def test_given_members_that_do_not_rejoin_when_the_timeout_is_over_then_they_are_out():
    machine = GroupMachine()
    leader, follower = machine.stable(2, session_ms=100_000)
    joined = machine.join(follower, protocols={"range": b"other"}, session_ms=100_000)

    machine.advance(REBALANCE_MS - 1)
    waiting = joined.is_waiting
    machine.advance(1)

    assert waiting
    assert (joined.response.leader, joined.roster) == (follower, [follower])
    assert machine.heartbeat(leader) == E.UNKNOWN_MEMBER_ID


def test_given_a_member_that_joins_twice_when_it_waits_then_the_first_is_let_go():
    machine = GroupMachine()
    first, _ = machine.stable(2)

    once = machine.join(first)
    twice = machine.join(first)

    assert (once.error, twice.is_waiting) == (E.REBALANCE_IN_PROGRESS, True)


# --- sessions -------------------------------------------------------------------------------------


def test_given_heartbeats_when_they_stop_then_the_member_is_out_a_session_later():
    machine = GroupMachine()
    leader, follower = machine.stable(2)
    for _ in range(5):
        machine.advance(SESSION_MS - 1_000)
        assert machine.heartbeat(leader) == E.NONE
        assert machine.heartbeat(follower) == E.NONE

    machine.advance(SESSION_MS - 1)
    assert machine.heartbeat(leader) == E.NONE
    machine.advance(1)

    assert machine.heartbeat(follower) == E.UNKNOWN_MEMBER_ID
    assert machine.heartbeat(leader) == E.REBALANCE_IN_PROGRESS


def test_given_a_member_that_waits_for_others_when_its_session_ends_then_it_stays():
    machine = GroupMachine()
    leader, follower = machine.stable(2)
    joined = machine.join(follower, protocols={"range": b"other"})
    for _ in range(3):
        machine.advance(SESSION_MS - 1)
        machine.heartbeat(leader)

    rejoined = machine.join(leader)

    assert (joined.error, rejoined.error) == (E.NONE, E.NONE)
    assert len(machine.group.members) == 2
    machine.advance(SESSION_MS - 1)
    assert machine.heartbeat(follower) == E.NONE  # its session began anew with the answer


def test_given_a_new_member_that_waits_when_its_join_timeout_is_over_then_it_is_out():
    machine = GroupMachine(new_member_join_timeout_ms=20_000)
    (leader,) = machine.stable()
    joined = machine.join_new()

    for _ in range(4):
        machine.advance(5_000)
        machine.heartbeat(leader)

    assert joined.error == E.UNKNOWN_MEMBER_ID
    assert list(machine.group.members) == [leader]


def test_given_a_generation_when_a_heartbeat_names_another_then_illegal():
    machine = GroupMachine()
    (member,) = machine.stable()

    assert machine.heartbeat(member, 0) == E.ILLEGAL_GENERATION
    assert machine.heartbeat(member, 1) == E.NONE


# --- leaving --------------------------------------------------------------------------------------


def test_given_a_member_that_leaves_when_others_are_left_then_they_rebalance():
    machine = GroupMachine()
    leader, follower = machine.stable(2)

    assert machine.leave(leader) == [E.NONE]
    assert machine.heartbeat(follower) == E.REBALANCE_IN_PROGRESS
    assert machine.join(follower).roster == [follower]


def test_given_the_last_member_when_it_leaves_then_the_group_is_empty_and_that_is_saved():
    machine = GroupMachine()
    (member,) = machine.stable()

    machine.leave(member)

    assert (machine.group.state, machine.group.generation) == ("Empty", 2)
    assert machine.store.saved[-1] == ("Empty", 2, {})
    assert machine.join(member).error == E.UNKNOWN_MEMBER_ID


def test_given_several_when_they_leave_at_once_then_each_has_its_error():
    machine = GroupMachine()
    leader, follower = machine.stable(2)
    pending = machine.join().member_id

    answers = machine.leave_as(
        MemberIdentity(follower),
        MemberIdentity(follower),
        MemberIdentity(pending),
        MemberIdentity("", "static"),
        MemberIdentity(leader, "static"),
        MemberIdentity(""),
    )

    unknown = E.UNKNOWN_MEMBER_ID
    assert [each.error_code for each in answers] == [0, unknown, 0, unknown, unknown, unknown]
    assert answers[3].group_instance_id == "static"
    assert list(machine.group.members) == [leader]


def test_given_an_id_that_is_given_back_when_others_wait_for_it_then_they_go_on():
    machine = GroupMachine()
    kept, given_back = (machine.join().member_id for _ in range(2))
    joined = machine.join(kept)

    assert machine.leave(given_back) == [E.NONE]
    assert joined.roster == [kept]


def test_given_a_member_that_waits_when_it_is_removed_then_its_join_is_answered():
    machine = GroupMachine()
    _, follower = machine.stable(2)
    waiting = machine.join(follower, protocols={"range": b"other"})

    machine.leave(follower)

    assert waiting.error == E.UNKNOWN_MEMBER_ID


def test_given_an_empty_group_when_joined_anew_then_the_next_generation_of_any_type():
    machine = GroupMachine()
    (member,) = machine.stable()
    machine.leave(member)

    joined = machine.join_new(protocol_type="connect", protocols={"eager": b""})

    assert (joined.response.generation_id, joined.response.protocol_type) == (3, "connect")
    assert machine.groups.get(GROUP) is not None


def test_given_a_member_that_waits_for_its_assignment_when_it_leaves_then_it_is_told():
    machine = GroupMachine()
    ids = [machine.join().member_id for _ in range(2)]
    for member_id in ids:
        machine.join(member_id)
    waiting = machine.sync(ids[1])

    machine.leave(ids[1])

    assert waiting.error == E.UNKNOWN_MEMBER_ID
