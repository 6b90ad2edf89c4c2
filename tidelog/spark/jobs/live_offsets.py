"""LiveOffsets: what a running broker says of its groups, over the Kafka protocol, without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from protocol.error_codes import error_name
from protocol.identifiers import TopicPartition
from protocol.kafka.apis import ApiKey
from protocol.kafka.group_admin import ListGroupsRequest
from protocol.kafka.group_offsets import OffsetFetchRequest
from protocol.kafka.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.client import ConnectionLostError
from tidelog.client.address import Address
from tidelog.kafka_probe import KafkaProbe
from tidelog.spark.jobs.commit import Commit, PartitionEnds
from tidelog.spark.jobs.job import JobError

__all__ = ["LiveOffsets"]

DEFAULT_PORT: Final = 9092
LIST_GROUPS_VERSION: Final = 0
OFFSET_FETCH_VERSION: Final = 5
LIST_OFFSETS_VERSION: Final = 1
"""Versions that brokers from 2.1 to 4.x have."""
EARLIEST, LATEST = -2, -1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3


class LiveOffsets:
    """One connection to a broker's Kafka listener.

    The broker is asked for all groups and all partitions, as one that is alone can be.

    Raises:
        JobError: the address is none, or the broker refuses.
        ConnectionLostError: there is no connection, or it was lost; from the questions, too.
    """

    def __init__(self, address: str, timeout_s: float = 30.0) -> None:
        try:
            self._address = Address.parse(address, DEFAULT_PORT)
        except ValueError as error:
            raise JobError(str(error)) from None
        try:
            self._probe = KafkaProbe(self._address.host, self._address.port, timeout_s)
        except OSError as error:
            raise ConnectionLostError(f"{self._address}: {error}") from error

    def close(self) -> None:
        self._probe.__exit__(None, None, None)

    def commits(self, groups: Iterable[str] = ()) -> list[Commit]:
        """Return what groups have committed: these, or all."""
        names = list(groups)
        if not names:
            answer = self._ask(ApiKey.LIST_GROUPS, LIST_GROUPS_VERSION, ListGroupsRequest())
            self._check(answer.error_code, "groups")
            names = [group.group_id for group in answer.groups]
        return [commit for name in names for commit in self._commits_of(name)]

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionEnds]:
        """Return where partitions begin and end; those that are not there are left out."""
        wanted = list(partitions)
        starts, ends = self._offsets(wanted, EARLIEST), self._offsets(wanted, LATEST)
        return {
            key: PartitionEnds(starts[key], end, {}) for key, end in ends.items() if key in starts
        }

    def _commits_of(self, group: str) -> list[Commit]:
        request = OffsetFetchRequest(group_id=group, topics=None)
        answer = self._ask(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request)
        self._check(answer.error_code, f"group {group}")
        return [
            Commit(group, topic.name, each.partition_index, 0, each.committed_offset, None)
            for topic in answer.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        ]

    def _offsets(self, keys: Iterable[TopicPartition], when: int) -> dict[TopicPartition, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        for key in keys:
            topic = topics.setdefault(key.topic, ListOffsetsTopic(key.topic, []))
            topic.partitions.append(ListOffsetsPartition(key.partition, timestamp=when))
        request = ListOffsetsRequest(replica_id=-1, topics=list(topics.values()))
        answer = self._ask(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request)
        found: dict[TopicPartition, int] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                if each.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                    continue
                self._check(each.error_code, f"{topic.name}-{each.partition_index}")
                found[TopicPartition(topic.name, each.partition_index)] = each.offset
        return found

    def _ask(self, key: ApiKey, version: int, request: Any) -> Any:
        try:
            return self._probe.ask(key, version, request)
        except OSError as error:
            raise ConnectionLostError(f"{self._address}: {error}") from error

    def _check(self, error: int, what: str) -> None:
        if error:
            raise JobError(f"{self._address} does not tell about {what}: {error_name(error)}")
