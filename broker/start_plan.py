"""StartPlan: what has to be done at start so that the registry and the directories agree. Pure.

The registry says which topics there are; the data directories hold partitions. They differ after a
crash in the middle of a creation or deletion, when a data directory comes from Kafka, and when one
is missing. Every step of a plan may be repeated: a crash while it is carried out leads to a plan
for what is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

import msgspec

from broker.topic_registry import TopicEntry
from protocol.errors import DataDirectoryError
from protocol.identifiers import TopicPartition


class FoundPartition(msgspec.Struct, frozen=True):
    """A partition that a data directory holds."""

    topic_partition: TopicPartition
    topic_id: UUID | None
    """None: not known, because its files cannot be read."""
    directory: int
    """Which of the configured data directories, by number."""


class StartPlan(msgspec.Struct):
    """What to do, in this order."""

    delete: list[FoundPartition] = []
    """Directories of topics whose deletion was begun, or that were deleted in their absence."""
    finish_delete: list[TopicEntry] = []
    """Topics to be taken out of the registry after that."""
    remember: set[str] = set()
    """Those of them that may have left partitions where nobody can delete them now."""
    adopt: list[TopicEntry] = []
    """Topics that only directories know of: to be put into the registry."""
    grow: list[TopicEntry] = []
    """Topics of which directories hold more partitions than the registry knows, as they will be."""
    create: list[tuple[TopicPartition, TopicEntry]] = []
    """Partitions without a directory."""
    unavailable: list[TopicPartition] = []
    """Partitions that cannot be read, or are probably in a data directory that is missing: never
    made anew, empty."""


def plan_start(
    entries: Iterable[TopicEntry],
    deleted_topic_ids: Collection[UUID],
    found: Iterable[FoundPartition],
    *,
    has_missing_directories: bool,
    new_id: Callable[[], UUID],
    settings_of: Callable[[str], Mapping[str, str]] = lambda topic: {},
) -> StartPlan:
    """Return what has to be done.

    Args:
        entries: The registry's topics, those being deleted too.
        deleted_topic_ids: Of topics deleted while a data directory was missing.
        found: Every partition of every data directory that is there.
        new_id: Makes the ids of topics that have none yet.
        settings_of: Of a topic that only directories know of.

    Raises:
        DataDirectoryError: two directories hold one partition, or a directory holds a partition of
            another topic of the same name. Only a person can say which to keep.
    """
    plan = StartPlan()
    by_name = {entry.name: entry for entry in entries}
    leaving = {entry.name: entry for entry in by_name.values() if entry.is_deleting}
    kept: dict[str, list[FoundPartition]] = defaultdict(list)
    for partition in found:
        topic = partition.topic_partition.topic
        if partition.topic_id in deleted_topic_ids:
            plan.delete.append(partition)
        elif topic in leaving and partition.topic_id is None:
            plan.remember.add(topic)
        elif topic in leaving and partition.topic_id == leaving[topic].topic_id:
            plan.delete.append(partition)
        else:
            kept[topic].append(partition)
    plan.finish_delete.extend(leaving.values())
    if has_missing_directories:
        plan.remember.update(leaving)
    topics = [entry for entry in by_name.values() if not entry.is_deleting]
    for name in sorted(kept.keys() - {entry.name for entry in topics}):
        adopted = _adopted(name, kept[name], new_id, settings_of(name))
        plan.adopt.append(adopted)
        topics.append(adopted)
    for entry in topics:
        _plan_topic(plan, entry, kept[entry.name], has_missing_directories)
    return plan


def _adopted(
    name: str,
    partitions: list[FoundPartition],
    new_id: Callable[[], UUID],
    settings: Mapping[str, str],
) -> TopicEntry:
    ids = [partition.topic_id for partition in partitions if partition.topic_id is not None]
    count = 1 + max(partition.topic_partition.partition for partition in partitions)
    return TopicEntry(name, ids[0] if ids else new_id(), count, settings)


def _plan_topic(
    plan: StartPlan, entry: TopicEntry, partitions: list[FoundPartition], may_be_elsewhere: bool
) -> None:
    by_number: dict[int, FoundPartition] = {}
    for partition in partitions:
        if partition.topic_id not in (None, entry.topic_id):
            raise DataDirectoryError(
                f"data directory {partition.directory + 1} holds {partition.topic_partition} of a "
                f"topic with id {partition.topic_id}, but topic {entry.name} has id "
                f"{entry.topic_id}: move that partition's directory away"
            )
        number = partition.topic_partition.partition
        if number in by_number:
            raise DataDirectoryError(
                f"data directories {by_number[number].directory + 1} and {partition.directory + 1} "
                f"both hold {partition.topic_partition}: move one of the two away"
            )
        by_number[number] = partition
        if partition.topic_id is None:
            plan.unavailable.append(partition.topic_partition)
    count = max([entry.partition_count, *(number + 1 for number in by_number)])
    if count > entry.partition_count:
        entry = TopicEntry(entry.name, entry.topic_id, count, entry.settings)
        plan.grow.append(entry)
    for number in range(count):
        if number not in by_number:
            topic_partition = TopicPartition(entry.name, number)
            if may_be_elsewhere:
                plan.unavailable.append(topic_partition)
            else:
                plan.create.append((topic_partition, entry))
