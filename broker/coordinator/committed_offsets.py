"""CommittedOffsets: how far one group has come, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from broker.coordinator.kept_bytes import OFFSET_BYTES, KeptBytes, text_bytes
from protocol.kafka.message import NO_UUID

__all__ = ["CommittedOffset", "CommittedOffsets", "Place"]

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


class CommittedOffset(NamedTuple):
    """One committed offset."""

    offset: int
    leader_epoch: int
    """Of the record before it, -1 if the client does not know."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    """When it goes, if the client has said so (OffsetCommit 2 to 4); else retention decides."""
    topic_id: bytes = NO_UUID
    """Of which topic it is: one that is made anew under a deleted one's name has another."""


def _growth(before: CommittedOffset | None, after: CommittedOffset | None) -> int:
    return _bytes_of(after) - _bytes_of(before)


def _bytes_of(committed: CommittedOffset | None) -> int:
    return 0 if committed is None else OFFSET_BYTES + text_bytes(committed.metadata)


class CommittedOffsets:
    """The committed offsets of a group.

    An offset, or its deletion, is *pending* from when its record is written until that is
    committed. Until then readers are shown the one before; and its key has to be counted when a
    group is deleted, or it would be there again after a restart.
    """

    __slots__ = ("_kept", "_pending", "by_topic", "count")

    def __init__(self, kept: KeptBytes) -> None:
        """Args:
        kept: Where is counted what they cost.
        """
        self._kept = kept
        self.by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self.count = 0
        """Of those that are committed."""
        self._pending: dict[Place, int] = {}

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """Return what is committed for a partition."""
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(partition)

    def begin(self, place: Place) -> None:
        """An offset, or its tombstone, was written, and is to be committed."""
        self._pending[place] = self._pending.get(place, 0) + 1

    def end(self, place: Place, committed: CommittedOffset | None) -> None:
        """What `begin` said is committed, or (None) a tombstone, or not known ever to be."""
        left = self._pending[place] - 1
        if left:
            self._pending[place] = left
        else:
            del self._pending[place]
        if committed is not None:
            self.put(place, committed)

    def put(self, place: Place, committed: CommittedOffset) -> None:
        """Note what is committed."""
        partitions = self.by_topic.setdefault(place[0], {})
        before = partitions.get(place[1])
        self.count += before is None
        partitions[place[1]] = committed
        self._kept.add(_growth(before, committed))

    def remove(self, place: Place) -> None:
        """Forget what is committed; that there is nothing is no error."""
        partitions = self.by_topic.get(place[0])
        before = None if partitions is None else partitions.pop(place[1], None)
        if partitions is not None and before is not None:
            self.count -= 1
            self._kept.add(_growth(before, None))
            if not partitions:
                del self.by_topic[place[0]]

    def growth(self, offsets: Mapping[Place, CommittedOffset]) -> int:
        """Return how many bytes more it takes to keep these too."""
        return sum(_growth(self.get(*place), each) for place, each in offsets.items())

    def items(self) -> Iterator[tuple[Place, CommittedOffset]]:
        """Yield everything that is committed; nothing may change meanwhile."""
        for topic, partitions in self.by_topic.items():
            for partition, committed in partitions.items():
                yield (topic, partition), committed

    def places(self) -> list[Place]:
        """Return where something is committed or pending."""
        return list(dict.fromkeys([*(place for place, _ in self.items()), *self._pending]))

    def has(self, place: Place) -> bool:
        """Whether something is committed or pending there."""
        return place[1] in self.by_topic.get(place[0], ()) or place in self._pending

    def is_pending(self, place: Place) -> bool:
        """Whether something was written there and is not committed yet."""
        return place in self._pending

    @property
    def is_empty(self) -> bool:
        """Whether nothing is committed or pending."""
        return not self.count and not self._pending
