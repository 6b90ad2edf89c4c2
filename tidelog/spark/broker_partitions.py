"""BrokerPartitions: what a running broker has to read: `Partitions` of `offset_ranges`."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.errors import BrokerError, ErrorCode
from protocol.identifiers import TopicPartition
from tidelog.client import PartitionInfo, TopicInfo
from tidelog.client.retrying import is_unknown_topic
from tidelog.spark.broker_link import BrokerLink
from tidelog.spark.offset_ranges import Bounds
from tidelog.spark.options import SourceOptions
from tidelog.spark.own_topics import is_for_users

__all__ = ["BrokerPartitions"]


class BrokerPartitions:
    """The topics of a broker, asked for at each call."""

    def __init__(self, link: BrokerLink, options: SourceOptions) -> None:
        self._link = link
        self._is_committed = options.isolation == "read_committed"
        assigned = {partition.topic for partition in options.assigned or ()}
        self._named = tuple(sorted(assigned)) or options.topics or ()

    def all(self) -> list[TopicPartition]:
        """Return the partitions of the topics that the options name; of all if one is missing."""
        topics = self._topics(self._named) if self._named else []
        if not self._named or any(topic.error for topic in topics):
            topics = self._topics(())
        return [
            TopicPartition(topic.name, each.partition)
            for topic in topics
            if topic.name in self._named or is_for_users(topic.name)
            for each in topic.partitions
        ]

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """Return log starts and high watermarks; for `read_committed` last stable offsets.

        Raises:
            BrokerError: the broker cannot serve a partition.
        """
        if not partitions:
            return {}
        found = {
            TopicPartition(topic.name, each.partition): each
            for topic in self._topics(sorted({partition.topic for partition in partitions}))
            for each in topic.partitions
        }
        there = {each: self._bounds_of(each, found[each]) for each in partitions if each in found}
        return {each: bounds for each, bounds in there.items() if bounds is not None}

    def offset_for_time(self, partition: TopicPartition, timestamp_ms: int) -> int | None:
        found = self._link.ask(lambda client: client.offsets(*partition, time_ms=timestamp_ms))
        return found[0] if found else None

    def _bounds_of(self, partition: TopicPartition, info: PartitionInfo) -> Bounds | None:
        if info.error:
            raise BrokerError(info.error, str(partition))
        end = info.high_watermark
        if self._is_committed:
            try:
                told = self._link.ask(lambda client: client.transactions(*partition))
            except BrokerError as error:
                if is_unknown_topic(error):  # it was deleted just now
                    return None
                raise
            end = max(info.log_start_offset, min(end, told.last_stable_offset))
        return Bounds(info.log_start_offset, end)

    def _topics(self, names: Sequence[str]) -> Sequence[TopicInfo]:
        topics = self._link.ask(lambda client: client.topics(*names))
        for topic in topics:
            if topic.error not in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                raise BrokerError(topic.error, topic.name)
        return topics
