"""The group machine against what must hold whatever happens, in whatever order."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.coordinator.group import GroupState
from protocol.error_codes import ErrorCode as E
from tests.support.group_machine import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    GroupMachine,
    Joined,
    Synced,
)

INSTANCES = ("one", "two", "three")
PROTOCOLS = ({"a": b"1", "b": b"1"}, {"b": b"2", "a": b"2"}, {"a": b"33"}, {"b": b"44", "c": b""})
JOIN_ERRORS = {
    E.NONE, E.MEMBER_ID_REQUIRED, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID,
    E.INCONSISTENT_GROUP_PROTOCOL, E.GROUP_MAX_SIZE_REACHED, E.REBALANCE_IN_PROGRESS,
    E.NOT_COORDINATOR,
}  # fmt: skip
SYNC_ERRORS = {
    E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.ILLEGAL_GENERATION,
    E.REBALANCE_IN_PROGRESS, E.NOT_COORDINATOR,
}  # fmt: skip


class Groups(RuleBasedStateMachine):
    """Clients that do anything, in any order, and a store as slow as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = GroupMachine(group_max_size=5)
        self.machine.store.is_held = True
        self.ids: list[str] = []
        """Every member id that was ever told."""
        self.instance_of: dict[str, str | None] = {}
        self.joining: list[tuple[Joined, str | None]] = []
        self.syncing: list[tuple[Synced, str, int]] = []
        self.leaders: dict[int, set[str]] = {}
        self.decided: dict[int, list[dict[str, bytes]]] = {}
        self.last_generation = 0

    # --- what clients do ------------------------------------------------------------------------

    @rule(
        instance=st.none() | st.sampled_from(INSTANCES),
        protocols=st.sampled_from(PROTOCOLS),
        version=st.sampled_from([0, 4, 9]),
    )
    def join_new(self, instance: str | None, protocols: Any, version: int) -> None:
        self._joined(
            self.machine.join(instance=instance, protocols=protocols, version=version), instance
        )

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), protocols=st.sampled_from(PROTOCOLS))
    def join_again(self, data: st.DataObject, protocols: Any) -> None:
        member_id = data.draw(st.sampled_from(self.ids))
        instance = self.instance_of[member_id]
        self._joined(self.machine.join(member_id, instance=instance, protocols=protocols), instance)

    @precondition(lambda self: self.ids and self.machine.groups.get(GROUP))
    @rule(data=st.data(), behind=st.sampled_from([0, 0, 0, 1]))
    def sync(self, data: st.DataObject, behind: int) -> None:
        group = self.machine.group
        leader = [group.leader_id] * 3 if group.leader_id in self.ids else []
        member_id = data.draw(st.sampled_from([*leader, *self.ids]))
        generation = group.generation - behind
        assignments = {
            each: f"{each} in {generation}, {len(self.syncing)}".encode() for each in group.members
        }
        if member_id == group.leader_id and group.state is GroupState.COMPLETING_REBALANCE:
            self.decided.setdefault(generation, []).append(assignments)
        instance = self.instance_of[member_id]
        synced = self.machine.sync(member_id, generation, assignments, group_instance_id=instance)
        self.syncing.append((synced, member_id, generation))

    @precondition(lambda self: self.ids and self.machine.groups.get(GROUP))
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        member_id = data.draw(st.sampled_from(self.ids))
        error = self.machine.heartbeat(member_id, instance=self.instance_of[member_id])
        group = self.machine.group
        if error == E.NONE:
            assert group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)
        assert (error in (E.NONE, E.REBALANCE_IN_PROGRESS)) == (member_id in group.members)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member_id = data.draw(st.sampled_from(self.ids))
        (error,) = self.machine.leave(member_id)
        group = self.machine.groups.get(GROUP)
        assert group is None or member_id not in group.members
        assert error in (E.NONE, E.UNKNOWN_MEMBER_ID)

    @rule(ms=st.sampled_from([1, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))
    def wait(self, ms: int) -> None:
        self.machine.advance(ms)

    @precondition(lambda self: self.machine.store.waiting)
    @rule(error=st.sampled_from([E.NONE, E.NONE, E.NONE, E.NOT_COORDINATOR]))
    def save(self, error: E) -> None:
        self.machine.store.release(error)

    def _joined(self, joined: Joined, instance: str | None) -> None:
        self.joining.append((joined, instance))
        self._look()

    # --- what must hold -------------------------------------------------------------------------

    @invariant()
    def one_leader_and_one_generation(self) -> None:
        self._look()
        group = self.machine.groups.get(GROUP)
        if group is None:
            self.last_generation = 0
            self.leaders.clear()
            self.decided.clear()
            return
        assert group.generation >= self.last_generation
        self.last_generation = group.generation
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert group.leader_id in group.members
            assert group.protocol_name in dict(group.members[group.leader_id].protocols)
        if group.state is GroupState.EMPTY:
            assert not group.members

    @invariant()
    def counts_are_right(self) -> None:
        group = self.machine.groups.get(GROUP)
        if group is None:
            return
        members = list(group.members.values())
        assert all(member_id == member.member_id for member_id, member in group.members.items())
        assert group.awaiting_join == sum(member.join_answer is not None for member in members)
        assert group.metadata_bytes == sum(member.metadata_bytes for member in members)
        assert group.supporters == Counter(n for each in members for n, _ in each.protocols)
        named = {each.instance_id: each.member_id for each in members if each.instance_id}
        assert group.static_members == named
        assert len(members) <= 5 * 2
        assert group.pending_sync <= group.members.keys()
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert not group.awaiting_join
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert not any(member.sync_answer for member in members)

    def _look(self) -> None:
        """Take note of answers, and hold each against the group as it is now."""
        for joined, instance in [each for each in self.joining if not each[0].is_waiting]:
            response = joined.response
            assert E(response.error_code) in JOIN_ERRORS
            if response.member_id and response.member_id not in self.instance_of:
                self.ids.append(response.member_id)
                self.instance_of[response.member_id] = instance
            if response.error_code == E.NONE and response.members:
                leaders = self.leaders.setdefault(response.generation_id, set())
                leaders.add(instance or response.member_id)
                assert len(leaders) == 1, "two members were told that they lead"
                assert response.leader == response.member_id
        self.joining = [each for each in self.joining if each[0].is_waiting]
        for synced, member_id, generation in self.syncing:
            if synced.is_waiting:
                continue
            response = synced.response
            assert E(response.error_code) in SYNC_ERRORS
            if response.error_code == E.NONE:
                assert synced.generation == generation, "an assignment of another generation"
                assert member_id in synced.members, "an assignment for one who is out"
                if response.assignment:
                    decided = self.decided[generation]
                    held = [each.get(member_id) for each in decided]
                    was_replaced = self.instance_of[member_id] is not None
                    assert response.assignment in held or was_replaced
        self.syncing = [each for each in self.syncing if each[0].is_waiting]

    def teardown(self) -> None:
        """Nobody waits for ever."""
        for _ in range(20):
            while self.machine.store.waiting:
                self.machine.store.release()
            self.machine.advance(10 * REBALANCE_MS)
        self._look()
        assert not self.joining
        assert not self.syncing
        group = self.machine.groups.get(GROUP)
        assert group is None or group.state is GroupState.EMPTY


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
