"""Partition report: what metrics and /readyz say of the partitions and their directories."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from broker.metrics import PartitionSample

if TYPE_CHECKING:
    from broker.data_directories import DataDirectories
    from broker.partition import Partition

DAMAGE_NAMED: Final = 3
"""Damaged ranges of a partition that /readyz names one by one."""


def partition_samples(partitions: Iterable[Partition]) -> Iterator[PartitionSample]:
    """Yield the numbers of every partition; they may come and go meanwhile."""
    for partition in list(partitions):
        log = partition.log
        yield PartitionSample(
            topic=partition.topic,
            partition=partition.number,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            log_end_offset=log.log_end_offset,
            durable_offset=log.durable_offset,
            size_bytes=log.size_bytes,
            segment_count=len(log.segments),
            damaged_ranges=len(log.damage),
            bytes_in=partition.bytes_in,
            messages_in=partition.messages_in,
            bytes_out=partition.bytes_out,
            messages_out=partition.messages_out,
        )


def problems(directories: DataDirectories, partitions: Iterable[Partition]) -> list[str]:
    """Return what does not work while the rest does, a sentence each."""
    sentences = [f"data directory {path} is missing" for path in directories.missing]
    present = directories.present
    sentences += [each.guard.problem for each in present if each.guard.problem]
    for directory in present:
        for topic_partition, reason in directory.unavailable.items():
            sentences.append(f"partition {topic_partition} cannot be used: {reason}")
    for partition in partitions:
        log = partition.log
        name = f"partition {partition.topic}-{partition.number}"
        if log.damage:
            # The first ones are enough to find the partition; `tidelog verify` names all.
            more = len(log.damage) - DAMAGE_NAMED
            named = "; ".join(map(str, itertools.islice(log.damage, DAMAGE_NAMED)))
            sentences.append(f"{name}: {named}" + (f"; and {more} more" if more > 0 else ""))
        if log.refusal and not log.is_closed:
            sentences.append(f"{name} {log.refusal}")
    return sentences
