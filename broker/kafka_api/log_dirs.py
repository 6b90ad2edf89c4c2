"""LogDirsHandler: DescribeLogDirs: what lies in which data directory, and how much room is left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from broker.kafka_api.call import Call
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.kafka.codec import encode_part
from protocol.kafka.log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi
    from broker.storage.log_directory import LogDirectory

PARTITIONS_PER_STEP: Final = 1_000
"""Each is a sum over its segments' sizes: a microsecond or two."""

Wanted = dict[str, set[int]] | None
"""Partition numbers by topic; None: all there are."""


class LogDirsHandler:
    """Describes data directories; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._manager = server.manager

    def describe_log_dirs(
        self, request: DescribeLogDirsRequest, call: Call
    ) -> DescribeLogDirsResponse | PendingResponse:
        """Handle a DescribeLogDirs."""
        return call.answer(self._describe(_wanted(request.topics), call))

    def _describe(self, wanted: Wanted, call: Call) -> Steps[DescribeLogDirsResponse]:
        """Describe the directories in the order of the configuration.

        One that is missing, or does not answer, says KAFKA_STORAGE_ERROR. Free space is what the
        broker's last look has found, a second ago or less: to ask the disk now could hang.
        """
        response = DescribeLogDirsResponse()
        directories = self._manager.store.directories
        missing = set(directories.missing)
        present = iter(directories.present)
        for path in directories.paths:
            result = DescribeLogDirsResult(log_dir=str(path))
            response.results.append(result)
            if path in missing:
                result.error_code = call.count_error(ErrorCode.KAFKA_STORAGE_ERROR)
                continue
            directory = next(present)
            if directory.guard.is_out_of_reach:
                result.error_code = call.count_error(ErrorCode.KAFKA_STORAGE_ERROR)
                continue
            look = directory.guard.last
            result.total_bytes, result.usable_bytes = look.total_bytes, look.free_bytes
            yield from _describe_logs(directory, wanted, result, call)
        return response


def _describe_logs(
    directory: LogDirectory, wanted: Wanted, result: DescribeLogDirsResult, call: Call
) -> Steps[None]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for number, (topic_partition, log) in enumerate(list(directory.logs.items()), 1):
        topic, partition = topic_partition
        if not number % PARTITIONS_PER_STEP:
            yield None
        if log.is_closed or (wanted is not None and partition not in wanted.get(topic, ())):
            continue
        described = topics.get(topic)
        if described is None:
            described = topics[topic] = DescribeLogDirsTopic(topic)
        # At the end there is little left to do but join: there may be very many.
        encoded: Any = encode_part(
            call.api, call.version, DescribeLogDirsPartition(partition, log.size_bytes)
        )
        described.partitions.append(encoded)
    result.topics = list(topics.values())


def _wanted(topics: Iterable[DescribableLogDirTopic] | None) -> Wanted:
    if topics is None:
        return None
    wanted: dict[str, set[int]] = defaultdict(set)
    for topic in topics:
        wanted[topic.topic].update(topic.partitions)
    return dict(wanted)
