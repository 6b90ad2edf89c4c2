"""Groups and offsets after a stop, after kill -9 and after a power cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_admin import DeleteGroupsRequest
from tests.support.group_broker import GROUP
from tests.support.group_restarts import Machine, end

ENDS = pytest.mark.parametrize("how", ["stop", "kill", "power cut"])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@ENDS
@pytest.mark.parametrize("seed", range(3))
def test_given_answered_commits_when_it_ends_anyhow_then_they_are_there(machine, how, seed):
    broker = machine.broker()
    broker.create_topic("logs", 3)
    for offset in range(5):
        broker.commit({0: offset, 1: 10 * offset}, metadata=f"at {offset}")
    broker.commit({2: 99}, group="other")
    end(broker, how, seed)

    again = machine.loaded()

    assert again.committed(0, 1, 2) == [4, 40, -1]
    assert again.committed(2, group="other") == [99]
    assert again.listed() == {GROUP: "Empty", "other": "Empty"}
    again.close()


@ENDS
def test_given_a_stable_group_when_it_ends_anyhow_then_its_members_go_on(machine, how):
    broker = machine.broker()
    broker.create_topic("logs", 1)
    member = broker.member()
    end(broker, how)

    again = machine.loaded()
    beat = again.heartbeat(member, 1)
    synced = again.sync(member, 1).response
    committed = again.commit_errors({0: 3}, member_id=member, generation_id_or_member_epoch=1)
    (described,) = again.described().members

    assert (beat, synced.error_code, synced.assignment) == (E.NONE, E.NONE, b"mine")
    assert committed == [E.NONE]
    assert (described.client_id, described.client_host) == ("tests", "/203.0.113.9")
    again.loop.advance(10_010)
    assert again.described().group_state == "Empty"
    again.close()


@ENDS
def test_given_static_members_when_it_ends_anyhow_then_they_come_back_undisturbed(machine, how):
    broker = machine.broker()
    leader = broker.join(group_instance_id="one").response.member_id
    waiting = broker.join(group_instance_id="two")
    broker.join(leader, group_instance_id="one")
    follower = waiting.response.member_id
    broker.sync(leader, 2, {leader: b"a", follower: b"b"}, group_instance_id="one")
    end(broker, how)

    again = machine.loaded()
    back = again.join(group_instance_id="two").response
    mine = again.sync(back.member_id, 2, group_instance_id="two").response
    lead = again.join(group_instance_id="one").response
    old = again.join(follower, group_instance_id="two").response

    assert (back.error_code, back.generation_id, mine.assignment) == (E.NONE, 2, b"b")
    assert (lead.generation_id, lead.leader, lead.skip_assignment) == (2, lead.member_id, True)
    assert old.error_code == E.FENCED_INSTANCE_ID
    assert again.heartbeat(back.member_id, 2) == E.NONE
    again.close()


@ENDS
def test_given_deletions_when_it_ends_anyhow_then_nothing_comes_back(machine, how):
    broker = machine.broker()
    broker.create_topic("logs", 1)
    member = broker.member()
    broker.leave(member)
    broker.commit({0: 3})
    broker.answer(DeleteGroupsRequest([GROUP]))
    end(broker, how)

    again = machine.loaded()

    assert again.listed() == {}
    assert again.committed(0) == [-1]
    again.close()


@ENDS
def test_given_a_deleted_topic_whose_tombstones_are_lost_when_made_again_then_no_old_offsets(
    machine, how
):
    """The broker ends between the deletion of a topic and the tombstones of its offsets."""
    broker = machine.broker()
    broker.create_topic("logs", 1)
    broker.create_topic("other", 1)
    member = broker.member()
    broker.commit({0: 7}, member_id=member, generation_id_or_member_epoch=1)
    broker.commit({0: 8}, topic="other", member_id=member, generation_id_or_member_epoch=1)
    broker.manager.on_topic_deleted = lambda name: None
    broker.loop.run(broker.manager.delete_topic("logs"))
    broker.create_topic("logs", 1)
    end(broker, how)

    again = machine.loaded()

    assert again.committed(0) == [-1]
    assert again.committed(0, topic="other") == [8]
    assert again.records()[-1].value is None  # nor is it read again at the next start
    by = {"member_id": member, "generation_id_or_member_epoch": 1}
    assert again.commit_errors({0: 1}, **by) == [E.NONE]
    assert again.committed(0) == [1]
    again.close()
