"""What clients may have the coordinator keep, in all: counted exactly, and bounded."""

from __future__ import annotations

from random import Random

from broker.config_groups import GroupsConfig
from broker.coordinator.committed_offsets import CommittedOffset
from broker.coordinator.group import Group
from broker.coordinator.groups import Groups
from broker.coordinator.kept_bytes import (
    GROUP_BYTES,
    OFFSET_BYTES,
    PENDING_BYTES,
    KeptBytes,
    text_bytes,
)
from broker.coordinator.timers import CANCELLED_MIN, FIRED_PER_TURN, Timer, Timers
from protocol.error_codes import ErrorCode as E
from protocol.kafka.group_admin import DescribeGroupsRequest
from protocol.kafka.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from protocol.limits import GROUP_PROTOCOLS_MAX
from tests.support.group_broker import GROUP, GroupBroker
from tests.support.group_machine import GroupMachine


def counted_anew(group: Group) -> int:
    """What the group costs, looked at from scratch."""
    return (
        GROUP_BYTES
        + text_bytes(group.group_id)
        + sum(member.kept_bytes for member in group.members.values())
        + sum(PENDING_BYTES + text_bytes(member_id) for member_id in group.pending)
        + sum(OFFSET_BYTES + text_bytes(each.metadata) for _, each in group.offsets.items())
    )


def test_given_members_that_come_and_go_when_counted_then_what_is_kept_is_exact():
    random, machine, ids, replaced = Random(3), GroupMachine(), [""], 0
    for step in range(600):
        member_id = random.choice(["", random.choice(ids)])
        instance = random.choice([None, None, "one", "two"])
        protocols = {"range": bytes(random.randrange(50))}
        choice = random.randrange(4)
        if choice < 2:
            group = machine.groups.get(GROUP)
            replaced += not member_id and group is not None and instance in group.static_members
            joined = machine.join(
                member_id, instance=instance, protocols=protocols, version=random.choice([0, 9])
            )
            ids += [each.member_id for each in joined.responses if each.member_id]
        elif choice == 2 and machine.groups.get(GROUP) and member_id:
            assignments = {each: bytes(random.randrange(9)) for each in machine.group.members}
            machine.sync(member_id, machine.group.generation, assignments)
        elif choice == 3 and random.random() < 0.2:
            machine.leave(member_id)
        machine.advance(random.choice([0, 0, 5_000]))
        if machine.groups.get(GROUP):
            place = ("logs", random.randrange(5))
            machine.group.offsets.put(place, CommittedOffset(step, -1, "x" * step, 0))
            machine.group.offsets.remove(("logs", random.randrange(9)))
            assert machine.group.kept.bytes == counted_anew(machine.group), step
        assert machine.groups.kept.bytes == sum(each.kept.bytes for each in machine.groups)
    assert len(ids) > 100
    assert replaced > 10


def test_given_a_group_that_is_removed_when_counted_then_it_is_no_part_of_the_whole():
    groups = Groups(groups_max=9, kept_bytes_max=1_000_000)
    group, other = groups.get_or_create("a", 0), groups.get_or_create("b", 0)
    both = groups.kept.bytes

    groups.remove(group)
    group.kept.add(5)
    left = groups.kept.bytes
    groups.add(group)

    assert (left, groups.kept.bytes) == (other.kept.bytes, both + 5)


def test_given_a_part_of_a_whole_when_asked_for_room_then_both_must_have_it():
    whole, part = KeptBytes(100), KeptBytes(50)
    part.join(whole)
    part.add(40)
    whole.add(50)

    assert [part.has_room(size) for size in (-1, 0, 10, 11)] == [True, True, True, False]
    whole.add(5)
    assert [part.has_room(size) for size in (0, 5, 6)] == [True, True, False]


# --- what is refused ------------------------------------------------------------------------------


def test_given_no_room_in_all_groups_when_members_come_then_refused_and_the_others_go_on():
    machine = GroupMachine(kept_bytes_max=GROUP_BYTES * 4)
    (member,) = machine.stable(protocols={"range": bytes(1_000)})
    machine.groups.kept.add(machine.groups.kept.maximum - machine.groups.kept.bytes)

    assert machine.join(group="other").error == E.POLICY_VIOLATION
    assert machine.join().error == E.GROUP_MAX_SIZE_REACHED
    assert machine.join(instance="static").error == E.GROUP_MAX_SIZE_REACHED
    assert machine.join(member, protocols={"range": bytes(1_000)}).error == E.NONE
    assert machine.sync(member, 2, {member: b""}).error == E.NONE


def test_given_no_room_when_a_leader_assigns_more_then_refused():
    machine = GroupMachine(group_metadata_bytes_max=1_024)
    joined = machine.join_new()

    refused = machine.sync(joined.member_id, 1, {joined.member_id: bytes(1_024)})
    again = machine.join(joined.member_id)
    taken = machine.sync(joined.member_id, 2, {joined.member_id: bytes(100)})

    assert (refused.error, again.error, taken.error) == (
        E.GROUP_MAX_SIZE_REACHED, E.NONE, E.NONE,
    )  # fmt: skip
    assert machine.store.saved[-1][2] == {joined.member_id: bytes(100)}


def test_given_no_room_in_all_groups_when_a_leader_assigns_then_refused():
    machine = GroupMachine()
    joined = machine.join_new()
    kept = machine.groups.kept
    kept.add(int(GroupsConfig().kept_bytes_max) - kept.bytes - 99)

    refused = machine.sync(joined.member_id, 1, {joined.member_id: bytes(100)})

    assert refused.error == E.GROUP_MAX_SIZE_REACHED
    assert machine.store.saved == []


def test_given_a_static_member_in_a_full_group_when_it_is_replaced_then_what_it_said_is_replaced():
    machine = GroupMachine(group_metadata_bytes_max=1_024)
    first = machine.join(instance="one", protocols={"range": bytes(600)})
    machine.sync(first.member_id, 1)

    assert machine.join(instance="one", protocols={"range": bytes(700)}).error == E.NONE
    assert machine.join(instance="two", protocols={"range": bytes(700)}).error == (
        E.GROUP_MAX_SIZE_REACHED
    )


def test_given_more_protocols_than_any_client_has_when_joining_then_refused():
    machine = GroupMachine()
    protocols = {f"protocol-{number}": b"" for number in range(GROUP_PROTOCOLS_MAX + 1)}

    assert machine.join(protocols=protocols).error == E.INCONSISTENT_GROUP_PROTOCOL
    protocols.popitem()
    assert machine.join(protocols=protocols).error == E.MEMBER_ID_REQUIRED


def test_given_no_room_in_all_groups_when_offsets_are_committed_then_only_what_does_not_grow():
    with GroupBroker(settings={"groups.kept_bytes_max": 1 << 20}) as broker:
        broker.create_topic("logs", 3)
        broker.commit({0: 1}, metadata="x" * 100)
        kept = broker.kafka.coordinator.groups.kept
        kept.add(kept.maximum - kept.bytes)

        assert broker.commit_errors({1: 2}) == [E.INVALID_COMMIT_OFFSET_SIZE]
        assert broker.commit_errors({0: 2}, metadata="x" * 101) == [E.INVALID_COMMIT_OFFSET_SIZE]
        assert broker.commit_errors({0: 3}, metadata="y" * 100) == [E.NONE]
        assert broker.commit_errors({0: 4}, group="new") == [E.POLICY_VIOLATION]
        kept.add(-GROUP_BYTES - 1_000)
        too_large = broker.commit_errors({0: 4}, group="new", metadata="x" * 4_000)
        assert too_large == [E.INVALID_COMMIT_OFFSET_SIZE]
        assert broker.committed(0, 1) == [3, -1]
        assert broker.listed() == {GROUP: "Empty"}


# --- answers --------------------------------------------------------------------------------------


def test_given_offsets_with_texts_when_asked_for_again_and_again_then_the_answer_is_bounded():
    with GroupBroker(settings={"limits.fetch_response_bytes_max": 10_000}) as broker:
        broker.create_topic("logs", 1)
        broker.commit({0: 1}, metadata="x" * 1_000)

        def asked(count: int) -> OffsetFetchRequestGroup:
            topics = [OffsetFetchRequestTopics("logs", partition_indexes=[0] * count)]
            return OffsetFetchRequestGroup(GROUP, topics=topics)

        groups = broker.answer(OffsetFetchRequest(groups=[asked(6), asked(4), asked(1)]), 9).groups
        old = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic("logs", [0] * 11)])

        assert [group.error_code for group in groups] == [E.NONE, E.NONE, E.INVALID_REQUEST]
        assert [len(group.topics) for group in groups] == [1, 1, 0]
        assert broker.answer(old, 7).error_code == E.INVALID_REQUEST
        (topic,) = broker.answer(old, 1).topics
        assert {each.error_code for each in topic.partitions} == {E.INVALID_REQUEST}


def test_given_many_groups_when_their_offsets_are_asked_for_then_others_have_their_turn():
    with GroupBroker() as broker:
        groups = [OffsetFetchRequestGroup(f"none-{number}", topics=[]) for number in range(1_001)]

        sent = broker.ask(OffsetFetchRequest(groups=groups), 9, settle=False)
        waiting = sent.is_waiting
        broker.loop.settle()

        assert waiting
        assert len(sent.response.groups) == 1_001


def test_given_groups_when_described_again_and_again_then_once_and_the_answer_is_bounded():
    with GroupBroker(settings={"limits.fetch_response_bytes_max": 1_500}) as broker:
        for group in ("a", "b"):
            broker.member(group, protocols={"range": bytes(1_000)})

        request = DescribeGroupsRequest(["a", "a", "b", "none"])
        groups = broker.answer(request, 5).groups

        assert [(each.group_id, each.error_code) for each in groups] == [
            ("a", E.NONE), ("b", E.INVALID_REQUEST), ("none", E.INVALID_REQUEST),
        ]  # fmt: skip
        assert len(groups[0].members) == 1


# --- timers ---------------------------------------------------------------------------------------


def test_given_timers_that_are_set_and_cancelled_when_many_then_they_are_not_all_kept():
    timers, fired = Timers(lambda: 0.0), []
    late = timers.after(0, lambda: fired.append("due"))
    for _ in range(100_000):
        timers.after(1_000_000_000, lambda: fired.append("cancelled")).cancel()

    assert len(timers) <= 2 * CANCELLED_MIN
    timers.fire()
    assert fired == ["due"]
    assert not late.is_pending


def test_given_timers_when_some_are_cancelled_then_the_others_fire_in_their_order():
    now, random = [0.0], Random(5)
    timers = Timers(lambda: now[0])
    fired: list[int] = []
    alive: dict[int, Timer] = {}
    for number in range(5_000):
        alive[number] = timers.after(number % 97, lambda number=number: fired.append(number))
        for each in random.sample(sorted(alive), k=min(len(alive) - 1, random.randrange(3))):
            alive.pop(each).cancel()

    now[0] = 1.0
    while timers.next_s is not None:
        timers.fire()

    assert fired == sorted(alive, key=lambda number: (number % 97, number))
    assert (len(timers), timers._cancelled, timers.next_s) == (0, 0, None)


def test_given_many_timers_when_due_at_once_then_fired_in_turns_in_their_order():
    timers, fired = Timers(lambda: 0.0), []
    for number in range(2 * FIRED_PER_TURN + 1):
        timers.after(0, lambda number=number: fired.append(number))

    turns = []
    while timers.next_s is not None:
        timers.fire()
        turns.append(len(fired))

    assert turns == [FIRED_PER_TURN, 2 * FIRED_PER_TURN, 2 * FIRED_PER_TURN + 1]
    assert fired == sorted(fired)


def test_given_a_member_that_joins_again_and_again_when_its_timeouts_are_long_then_few_are_kept():
    machine = GroupMachine()
    (member,) = machine.stable(rebalance_ms=2**31 - 1)

    for _ in range(2_000):
        machine.join(member, rebalance_ms=2**31 - 1)

    assert len(machine.timers) <= 2 * CANCELLED_MIN
