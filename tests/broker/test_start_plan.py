"""StartPlan: what is made, adopted, finished and refused at start."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.start_plan import FoundPartition, StartPlan, plan_start
from broker.topic_registry import TopicEntry
from protocol.errors import DataDirectoryError
from protocol.identifiers import TopicPartition

LOGS = TopicEntry("logs", UUID(int=1), 2, {"retention.ms": "5"})
NEW_ID = UUID(int=99)


def found(
    topic: str, partition: int, topic_id: UUID | None = LOGS.topic_id, directory: int = 0
) -> FoundPartition:
    return FoundPartition(TopicPartition(topic, partition), topic_id, directory)


def plan(
    entries: list[TopicEntry],
    partitions: list[FoundPartition],
    *,
    deleted: set[UUID] = frozenset(),  # type: ignore[assignment]
    missing: bool = False,
) -> StartPlan:
    return plan_start(
        entries, deleted, partitions, has_missing_directories=missing, new_id=lambda: NEW_ID
    )


def test_given_registry_and_directories_agree_when_planned_then_nothing_is_to_do():
    assert plan([LOGS], [found("logs", 1, directory=1), found("logs", 0)]) == StartPlan()


def test_given_a_creation_cut_short_when_planned_then_missing_partitions_are_made():
    planned = plan([LOGS], [found("logs", 0)])

    assert planned == StartPlan(create=[(TopicPartition("logs", 1), LOGS)])


def test_given_a_missing_directory_when_planned_then_partitions_are_never_made_empty():
    planned = plan([LOGS], [found("logs", 0)], missing=True)

    assert planned == StartPlan(unavailable=[TopicPartition("logs", 1)])


def test_given_a_deletion_cut_short_when_planned_then_it_is_finished():
    leaving = TopicEntry("logs", LOGS.topic_id, 2, {}, is_deleting=True)

    planned = plan([leaving], [found("logs", 1)])

    assert planned == StartPlan(delete=[found("logs", 1)], finish_delete=[leaving])


def test_given_a_directory_back_after_its_topic_was_deleted_when_planned_then_it_goes():
    again = TopicEntry("logs", UUID(int=7), 1)
    old, new = found("logs", 0, LOGS.topic_id, 1), found("logs", 0, UUID(int=7))

    planned = plan([again], [old, new], deleted={LOGS.topic_id})

    assert planned == StartPlan(delete=[old])


def test_given_a_kafka_directory_when_planned_then_its_topics_are_adopted_with_their_ids():
    planned = plan([], [found("logs", 0), found("logs", 1), found("old", 0, None)])

    assert planned.adopt == [
        TopicEntry("logs", LOGS.topic_id, 2),
        TopicEntry("old", NEW_ID, 1),
    ]
    assert not planned.create


def test_given_a_part_of_a_kafka_topic_when_planned_then_the_rest_is_made():
    planned = plan([], [found("logs", 2)])

    adopted = TopicEntry("logs", LOGS.topic_id, 3)
    assert planned.adopt == [adopted]
    assert [tp.partition for tp, _ in planned.create] == [0, 1]


def test_given_more_partitions_than_registered_when_planned_then_the_topic_grows():
    planned = plan([LOGS], [found("logs", number) for number in range(4)])

    assert planned == StartPlan(grow=[TopicEntry("logs", LOGS.topic_id, 4, LOGS.settings)])


def test_given_a_partition_that_cannot_be_read_when_planned_then_it_is_not_made_anew():
    planned = plan([LOGS], [found("logs", 0, None), found("logs", 1)])

    assert planned == StartPlan(unavailable=[TopicPartition("logs", 0)])


def test_given_a_deleted_topic_that_cannot_be_read_when_planned_then_its_id_is_remembered():
    leaving = TopicEntry("logs", LOGS.topic_id, 1, {}, is_deleting=True)

    planned = plan([leaving], [found("logs", 0, None)])

    assert planned == StartPlan(finish_delete=[leaving], remember={"logs"})


def test_given_a_missing_directory_when_a_deletion_is_finished_then_its_id_is_remembered():
    leaving = TopicEntry("logs", LOGS.topic_id, 1, {}, is_deleting=True)

    planned = plan([leaving], [], missing=True)

    assert planned == StartPlan(finish_delete=[leaving], remember={"logs"})


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        ([found("logs", 0), found("logs", 0, directory=1)], "both hold logs-0"),
        ([found("logs", 0, UUID(int=5))], "move that partition's directory away"),
    ],
)
def test_given_what_only_a_person_can_decide_when_planned_then_start_is_refused(partitions, reason):
    with pytest.raises(DataDirectoryError, match=reason):
        plan([LOGS], partitions)


@given(
    counts=st.dictionaries(st.sampled_from("abc"), st.integers(1, 4), max_size=3),
    deleting=st.sets(st.sampled_from("abc")),
    data=st.data(),
)
def test_given_any_crash_when_a_plan_was_carried_out_then_the_next_plan_is_empty(
    counts, deleting, data
):
    entries = [
        TopicEntry(name, UUID(int=ord(name)), count, {}, is_deleting=name in deleting)
        for name, count in counts.items()
    ]
    there = [
        found(entry.name, number, entry.topic_id)
        for entry in entries
        for number in range(entry.partition_count)
        if data.draw(st.booleans())
    ]

    planned = plan(entries, there)

    left = [each for each in there if each not in planned.delete]
    left += [found(tp.topic, tp.partition, entry.topic_id) for tp, entry in planned.create]
    kept = [entry for entry in entries if entry not in planned.finish_delete]
    assert plan(kept, left) == StartPlan()
    assert len(left) == sum(entry.partition_count for entry in kept)
