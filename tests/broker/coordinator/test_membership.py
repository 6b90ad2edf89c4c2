"""The group machine, event by event: joining, assigning, heartbeats, leaving."""

from __future__ import annotations

import pytest

from protocol.error_codes import ErrorCode as E
from tests.support.group_machine import REBALANCE_MS, SESSION_MS, GroupMachine

# --- joining --------------------------------------------------------------------------------------


def test_given_a_new_member_when_it_joins_then_it_gets_an_id_first_and_leads_at_once():
    machine = GroupMachine()

    first = machine.join()
    second = machine.join(first.member_id)

    assert (first.error, first.response.generation_id) == (E.MEMBER_ID_REQUIRED, -1)
    assert second.response.generation_id == 1
    assert second.response.leader == second.member_id == first.member_id == "client-1"
    assert second.roster == ["client-1"]
    assert (second.response.protocol_type, second.response.protocol_name) == ("consumer", "range")
    assert machine.group.state == "CompletingRebalance"


@pytest.mark.parametrize("version", [0, 3])
def test_given_an_old_client_when_it_joins_then_it_is_in_at_once(version):
    machine = GroupMachine()

    joined = machine.join(version=version)

    assert (joined.error, joined.roster) == (E.NONE, ["client-1"])


def test_given_ids_given_out_when_the_first_joins_then_it_waits_for_the_others():
    machine = GroupMachine()
    ids = [machine.join().member_id for _ in range(3)]

    joined = [machine.join(member_id) for member_id in ids[:2]]
    waiting = [each.is_waiting for each in joined]
    joined.append(machine.join(ids[2]))

    assert waiting == [True, True]
    assert [each.response.generation_id for each in joined] == [1, 1, 1]
    assert joined[0].roster == ids
    assert [each.roster for each in joined[1:]] == [[], []]


def test_given_an_id_that_nobody_comes_with_when_its_session_ends_then_the_others_go_on():
    machine = GroupMachine()
    kept, lost = (machine.join().member_id for _ in range(2))
    joined = machine.join(kept)

    machine.advance(SESSION_MS - 1)
    before = joined.is_waiting
    machine.advance(1)

    assert before
    assert joined.roster == [kept]
    assert machine.join(lost).error == E.UNKNOWN_MEMBER_ID


def test_given_a_first_id_that_nobody_comes_with_when_time_passes_then_no_group_is_left():
    machine = GroupMachine()
    machine.join()

    machine.advance(SESSION_MS)

    assert len(machine.groups) == 0


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_given_a_session_timeout_out_of_range_when_joining_then_refused(timeout_ms):
    machine = GroupMachine()

    assert machine.join(session_ms=timeout_ms).error == E.INVALID_SESSION_TIMEOUT
    assert len(machine.groups) == 0


def test_given_no_group_when_one_joins_with_an_id_then_it_is_unknown():
    machine = GroupMachine()

    assert machine.join("client-7").error == E.UNKNOWN_MEMBER_ID
    assert len(machine.groups) == 0


@pytest.mark.parametrize(
    "wrong",
    [{"protocol_type": "connect"}, {"protocols": {"sticky": b""}}, {"protocols": {}}],
    ids=["another type", "none in common", "none"],
)
def test_given_a_group_when_one_with_other_protocols_joins_then_inconsistent(wrong):
    machine = GroupMachine()
    machine.stable()

    assert machine.join(**wrong).error == E.INCONSISTENT_GROUP_PROTOCOL
    assert machine.group.state == "Stable"


@pytest.mark.parametrize("wrong", [{"protocol_type": ""}, {"protocols": {}}])
def test_given_no_group_when_one_without_protocols_joins_then_inconsistent_and_no_group(wrong):
    machine = GroupMachine()

    assert machine.join(**wrong).error == E.INCONSISTENT_GROUP_PROTOCOL
    assert len(machine.groups) == 0


def test_given_votes_when_a_generation_begins_then_what_most_like_best_of_what_all_have():
    machine = GroupMachine()
    likes = [("a", "b", "c"), ("c", "b"), ("b", "c", "a")]
    ids = [machine.join(protocols=dict.fromkeys(names, b"")).member_id for names in likes]

    joined = [
        machine.join(member_id, protocols={name: name.encode() for name in names})
        for member_id, names in zip(ids, likes, strict=True)
    ]

    assert {each.response.protocol_name for each in joined} == {"b"}
    assert [member.metadata for member in joined[0].response.members] == [b"b"] * 3


def test_given_a_full_group_when_another_joins_then_refused():
    machine = GroupMachine(group_max_size=2)
    machine.stable(2)

    assert machine.join().error == E.GROUP_MAX_SIZE_REACHED
    assert machine.join(version=0).error == E.GROUP_MAX_SIZE_REACHED
    assert machine.group.state == "Stable"


def test_given_as_many_ids_given_out_as_may_be_members_when_another_is_asked_for_then_refused():
    machine = GroupMachine(group_max_size=2)
    machine.join()
    machine.join()

    assert machine.join().error == E.GROUP_MAX_SIZE_REACHED


def test_given_a_rebalance_when_more_come_than_may_then_the_last_one_must_go():
    machine = GroupMachine(group_max_size=2)
    first, second = machine.stable(2)
    rejoined = machine.join(first, protocols={"range": b"other"})
    pending = machine.join()

    joined = machine.join(pending.member_id)
    late = machine.join(second)

    assert joined.error == E.NONE
    assert late.error == E.GROUP_MAX_SIZE_REACHED
    assert sorted(rejoined.roster) == sorted([first, pending.member_id])


def test_given_metadata_beyond_the_bound_when_joining_then_refused():
    machine = GroupMachine(group_metadata_bytes_max=1_024)
    (member,) = machine.stable(protocols={"range": bytes(500)})

    assert machine.join(protocols={"range": bytes(500)}).error == E.GROUP_MAX_SIZE_REACHED
    assert machine.join(member, protocols={"range": bytes(600)}).error == E.NONE
    assert machine.group.metadata_bytes <= 1_024


def test_given_as_many_groups_as_may_be_when_another_is_joined_then_refused():
    machine = GroupMachine(groups_max=1)
    machine.stable()

    assert machine.join(group="other").error == E.POLICY_VIOLATION
    assert len(machine.groups) == 1


# --- the initial delay ----------------------------------------------------------------------------


def test_given_an_initial_delay_when_members_keep_coming_then_it_is_prolonged_to_the_timeout():
    machine = GroupMachine(initial_rebalance_delay_ms=1_000)
    first = machine.join(version=0, rebalance_ms=2_500)
    machine.advance(600)
    second = machine.join(version=0, rebalance_ms=2_500)

    machine.advance(600)  # the first delay is over, but one has come meanwhile
    waiting = first.is_waiting and second.is_waiting
    machine.advance(800)

    assert waiting
    assert sorted(first.roster) == ["client-1", "client-2"]
    assert second.response.generation_id == 1


def test_given_an_initial_delay_when_nobody_else_comes_then_it_ends():
    machine = GroupMachine(initial_rebalance_delay_ms=1_000)
    joined = machine.join(version=0)

    machine.advance(999)
    waiting = joined.is_waiting
    machine.advance(1)

    assert waiting
    assert joined.error == E.NONE


# --- assigning ------------------------------------------------------------------------------------


def test_given_a_generation_when_the_leader_assigns_then_all_get_theirs_once_it_is_saved():
    machine = GroupMachine()
    ids = [machine.join().member_id for _ in range(3)]
    for member_id in ids:
        machine.join(member_id)
    machine.store.is_held = True
    early = machine.sync(ids[1])

    leading = machine.sync(ids[0], assignments={ids[0]: b"0", ids[1]: b"1", "nobody": b"x"})
    waiting = early.is_waiting and leading.is_waiting
    machine.store.release()
    late = machine.sync(ids[2])

    assert waiting
    assert [each.response.assignment for each in (leading, early, late)] == [b"0", b"1", b""]
    assert machine.store.saved[-1] == (
        "CompletingRebalance", 1, {ids[0]: b"0", ids[1]: b"1", ids[2]: b""},
    )  # fmt: skip
    assert machine.group.state == "Stable"
    assert leading.response.protocol_name == "range"


def test_given_assignments_that_cannot_be_saved_when_answered_then_all_rebalance():
    machine = GroupMachine()
    ids = [machine.join().member_id for _ in range(2)]
    for member_id in ids:
        machine.join(member_id)
    machine.store.error = E.NOT_COORDINATOR
    waiting = machine.sync(ids[1])

    leading = machine.sync(ids[0], assignments={ids[1]: b"1"})

    assert (leading.error, waiting.error) == (E.NOT_COORDINATOR, E.NOT_COORDINATOR)
    assert machine.group.state == "PreparingRebalance"


def test_given_a_save_under_way_when_a_rebalance_begins_then_the_old_assignment_is_nobodys():
    machine = GroupMachine()
    leader = machine.join_new().member_id
    machine.store.is_held = True
    syncing = machine.sync(leader, assignments={leader: b"old"})

    newcomer = machine.join_new()
    rejoined = machine.join(leader)
    machine.store.release()

    assert syncing.error == E.REBALANCE_IN_PROGRESS
    assert (newcomer.error, rejoined.error) == (E.NONE, E.NONE)
    assert machine.group.state == "CompletingRebalance"
    assert machine.group.members[leader].assignment == b""


def test_given_members_that_do_not_sync_when_the_rebalance_timeout_is_over_then_they_are_out():
    machine = GroupMachine()
    ids = [machine.join(session_ms=100_000).member_id for _ in range(2)]
    for member_id in ids:
        machine.join(member_id, session_ms=100_000)
    machine.sync(ids[0], assignments={})

    machine.advance(REBALANCE_MS)

    assert machine.heartbeat(ids[1]) == E.UNKNOWN_MEMBER_ID
    assert machine.heartbeat(ids[0]) == E.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation": 2}, E.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "static"}, E.UNKNOWN_MEMBER_ID),
    ],
    ids=str,
)
def test_given_a_wrong_sync_when_handled_then_its_error(fields, error):
    machine = GroupMachine()
    (member,) = machine.stable()

    assert machine.sync(member, **fields).error == error


def test_given_strangers_when_they_sync_beat_or_leave_then_they_are_unknown():
    machine = GroupMachine()
    machine.stable()

    assert machine.sync("stranger").error == E.UNKNOWN_MEMBER_ID
    assert machine.heartbeat("stranger") == E.UNKNOWN_MEMBER_ID
    assert machine.leave("stranger") == [E.UNKNOWN_MEMBER_ID]


def test_given_a_rebalance_when_a_member_syncs_then_it_is_told_to_join():
    machine = GroupMachine()
    first, _ = machine.stable(2)
    machine.join(first)

    assert machine.sync(first).error == E.REBALANCE_IN_PROGRESS
