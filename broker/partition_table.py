"""PartitionTable: which partitions can be reached under which name; look-ups of every request.

By the bytes of the topic's name, as they stand in a request. The lists are looked into by handlers
directly: a partition that exists but cannot be used is None there, and answers KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from protocol.error_codes import ErrorCode
from protocol.errors import InvalidTopicError, StorageError, UnknownTopicOrPartitionError
from protocol.internal_topics import is_internal
from protocol.stored.file_names import check_topic_name, is_topic_name

if TYPE_CHECKING:
    from uuid import UUID

    from broker.partition import Partition

INVENTED_IDS_FROM: Final = 2**62


def check_is_for_clients(topic: str) -> None:
    """Check that clients may make, change or delete a topic.

    Raises:
        InvalidTopicError: an internal topic, or a name that no topic may have.
    """
    check_topic_name(topic)
    if is_internal(topic):
        raise InvalidTopicError(
            f"clients cannot create, change or delete the internal topic {topic}"
        )


class PartitionTable:
    """Every reachable partition."""

    def __init__(self) -> None:
        self.by_topic: dict[bytes, list[Partition | None]] = {}
        """By topic and number; None: the partition exists, and cannot be used."""
        self.writable_by_topic: dict[bytes, list[Partition | None]] = {}
        """The same without the internal topics."""
        self.names_by_id: dict[bytes, bytes] = {}
        """Topic names by topic id, as newer requests name them."""

    def publish(self, topic: str, topic_id: UUID, partitions: Sequence[Partition | None]) -> None:
        """Make a topic reachable."""
        name = topic.encode("ascii")
        self.names_by_id[topic_id.bytes] = name
        listed = list(partitions)
        self.by_topic[name] = listed
        if not is_internal(name):
            self.writable_by_topic[name] = listed

    def extend(self, topic: str, partitions: Sequence[Partition | None]) -> None:
        """Make more partitions of a topic reachable: behind those that are."""
        self.by_topic[topic.encode("ascii")] += partitions  # the one list that handlers look into

    def unpublish(self, topic: str) -> list[Partition | None]:
        """Make a topic unreachable; return what it had. Whoever waits there is not told."""
        name = topic.encode("ascii")
        for topic_id in [key for key, value in self.names_by_id.items() if value == name]:
            del self.names_by_id[topic_id]
        self.writable_by_topic.pop(name, None)
        return self.by_topic.pop(name, [])

    def fail_all(self) -> None:
        """Nothing can be used any more: all waiting ends, all requests answer 56."""
        usable = list(self)
        for partitions in self.by_topic.values():  # first: whoever waits looks again
            partitions[:] = [None] * len(partitions)
        for partition in usable:
            partition.fail_waiters(ErrorCode.KAFKA_STORAGE_ERROR)

    def __iter__(self) -> Iterator[Partition]:
        """Every partition that can be used."""
        for partitions in self.by_topic.values():
            for partition in partitions:
                if partition is not None:
                    yield partition

    def largest_producer_id(self) -> int:
        """Return the largest id of an idempotent producer that a log knows, -1 if there is none.

        Ids that no broker can have come to by counting are a client's invention and left out.
        """
        known = (partition.log.producers.producers for partition in self)
        credible = (id_ for each in known for id_ in each if id_ < INVENTED_IDS_FROM)
        return max(credible, default=-1)

    def partition(self, topic: bytes, number: int) -> Partition:
        """Return a partition to read from.

        Raises:
            UnknownTopicOrPartitionError: no such topic, or no such partition of it.
            StorageError: it exists and cannot be used.
        """
        return _member(self.by_topic.get(topic), topic, number)

    def writable_partition(self, topic: bytes, number: int) -> Partition:
        """Return a partition for clients to write to.

        Raises:
            InvalidTopicError: an internal topic, or a name that no topic may have.
            UnknownTopicOrPartitionError, StorageError: as `partition`.
        """
        partitions = self.writable_by_topic.get(topic)
        if partitions is None:
            self.check_writable(topic)
        return _member(partitions, topic, number)

    def check_writable(self, topic: bytes) -> None:
        """Check that clients may write to a topic.

        Raises:
            InvalidTopicError: an internal topic, or a name that no topic may have.
            UnknownTopicOrPartitionError: no such topic.
        """
        if topic in self.writable_by_topic:
            return
        if is_internal(topic):
            raise InvalidTopicError("clients cannot write to internal topics")
        if not is_topic_name(topic.decode("latin-1")):
            raise InvalidTopicError("no topic may have that name")
        raise UnknownTopicOrPartitionError(f"there is no topic {_text(topic)}")


def _member(partitions: Sequence[Partition | None] | None, topic: bytes, number: int) -> Partition:
    if partitions is None:
        raise UnknownTopicOrPartitionError(f"there is no topic {_text(topic)}")
    if not 0 <= number < len(partitions):
        raise UnknownTopicOrPartitionError(
            f"topic {_text(topic)} has {len(partitions)} partitions, none with number {number}"
        )
    partition = partitions[number]
    if partition is None:
        raise StorageError(f"partition {_text(topic)}-{number} cannot be used now")
    return partition


def _text(topic: bytes) -> str:
    return topic[:249].decode("latin-1")
