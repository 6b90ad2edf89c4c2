"""SegmentExplanations: why the segments of a running broker's topic are kept, or when they go."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from broker.steps import Steps
from broker.storage.retention_explained import (
    PartitionExplanation,
    SegmentExplanation,
    TopicExplanation,
)
from protocol.errors import StorageError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    from broker.clock import Clock
    from broker.partition_manager import PartitionManager

SEGMENTS_PER_STEP: Final = 16
"""Of a segment that was not looked at before, the end is read: some tens of microseconds."""


def topic_explanation(
    manager: PartitionManager, clock: Clock, topic: str, partitions: Collection[int] = ()
) -> Steps[TopicExplanation]:
    """Explain all segments of a topic, some a step; nothing is changed.

    Args:
        partitions: Only these; all of the topic without any.

    Raises:
        UnknownTopicOrPartitionError: no such topic, or no such partition of it.
    """
    count = manager.topic(topic).partition_count
    beyond = [number for number in partitions if not 0 <= number < count]
    if beyond:
        raise UnknownTopicOrPartitionError(f"topic {topic} has no partition {beyond[0]}")
    config = manager.store.config_of(topic)
    explained: list[PartitionExplanation] = []
    for number in sorted(set(partitions)) or range(count):
        explained.append((yield from _partition(manager, topic, number, clock.now_ms())))
        yield None
    return TopicExplanation(
        topic,
        str(config.cleanup_policy),
        config.retention_ms,
        config.retention_bytes,
        tuple(explained),
    )


def _partition(
    manager: PartitionManager, topic: str, number: int, now_ms: int
) -> Steps[PartitionExplanation]:
    segments: list[SegmentExplanation] = []
    try:
        log = manager.partition(topic, number).log
        for segment in log.trimmer.explain(now_ms):
            segments.append(segment)
            if not len(segments) % SEGMENTS_PER_STEP:
                yield None
    except (StorageError, UnknownTopicOrPartitionError) as error:  # or deleted meanwhile
        return PartitionExplanation(number, error=str(error))
    return PartitionExplanation(
        number,
        None,
        log.log_start_offset,
        log.high_watermark,
        sum(segment.size_bytes for segment in segments),
        tuple(segments),
    )
