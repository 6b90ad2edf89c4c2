"""ArchiveSource: where records to archive come from: the files of a data directory, or a broker.

It is pickled into the tasks, which read records with it; the driver asks it what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from protocol.error_codes import ErrorCode
from protocol.errors import BrokerError
from protocol.identifiers import TopicPartition
from tidelog.client import Client
from tidelog.segments.decoding import decode_batches
from tidelog.segments.errors import DataLossError, OptionError
from tidelog.segments.location import locate
from tidelog.segments.log_files import PartitionFiles, list_partitions
from tidelog.segments.plan import Split, bounds, plan
from tidelog.segments.read_options import ReadOptions
from tidelog.segments.reader import read_split
from tidelog.spark.offset_ranges import Bounds

__all__ = ["ArchiveSource", "BrokerSource", "DirectorySource", "Piece"]

FETCH_BYTES: Final = 8 << 20
INTERNAL_PREFIX: Final = "__"
"""Of topics that are archived only if they are named, such as `__consumer_offsets`."""


class Piece(NamedTuple):
    """What one task archives: offsets of one partition, the end not among them."""

    partition: TopicPartition
    start: int
    end: int
    splits: tuple[Split, ...] = ()
    """Of a data directory: where the records are; none if all of them are gone by compaction."""


class ArchiveSource(Protocol):
    """Somewhere that topics are."""

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        """Return what there is of the topics that are to be archived."""

    def pieces(
        self, partition: TopicPartition, start: int, end: int, size_bytes: int
    ) -> list[Piece]:
        """Return pieces of about that size that follow one another from `start` to `end`."""

    def batches(self, piece: Piece, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """Yield the records of a piece. DataLossError if they are not there any more."""


class DirectorySource:
    """A data directory, its broker running or not: what is below the high watermark of the files.

    Args:
        path: Of this machine, or a URL; tasks must find the same there.
        topics: None: all but internal ones.
    """

    def __init__(self, path: str, topics: Sequence[str] | None) -> None:
        self._path, self._topics = path, topics
        self._files: dict[TopicPartition, PartitionFiles] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return DirectorySource, (self._path, self._topics)  # tasks have no use for all the files

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        location = locate(self._path)
        found = list_partitions(location)
        there = {files.topic for files in found}
        missing = [topic for topic in self._topics or () if topic not in there]
        if missing:
            raise OptionError(
                f"{self._path} has no topic {', '.join(missing)}; it has {', '.join(sorted(there))}"
            )
        self._files = {
            TopicPartition(files.topic, files.partition): files
            for files in found
            if _is_wanted(files.topic, self._topics)
        }
        return {key: Bounds(*bounds(location, files)) for key, files in self._files.items()}

    def pieces(
        self, partition: TopicPartition, start: int, end: int, size_bytes: int
    ) -> list[Piece]:
        files = self._files[partition]
        splits = plan(locate(self._path), files, start, end, split_bytes=size_bytes)
        groups: list[list[Split]] = [[]]
        group_bytes = 0
        for split in splits:
            split_bytes = split.end_position - split.start_position
            if groups[-1] and group_bytes + split_bytes > size_bytes:
                groups.append([])
                group_bytes = 0
            groups[-1].append(split)
            group_bytes += split_bytes
        cuts = [start, *(group[0].start_offset for group in groups[1:]), end]
        return [
            Piece(partition, begin, stop, tuple(group))
            for (begin, stop), group in zip(pairwise(cuts), groups, strict=True)
        ]

    def batches(self, piece: Piece, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        location = locate(self._path)
        for split in piece.splits:
            yield from read_split(location, split, options)


class BrokerSource:
    """A running broker, over its native protocol.

    Args:
        address: As executors reach it.
        topics: None: all but internal ones.
    """

    def __init__(self, address: str, topics: Sequence[str] | None) -> None:
        self._address, self._topics = address, topics
        self._record_bytes: dict[TopicPartition, float] = {}

    def bounds(self) -> Mapping[TopicPartition, Bounds]:
        found = {}
        with Client(self._address) as client:
            for topic in client.topics(*(self._topics or ())):
                if topic.error:
                    raise BrokerError(topic.error, topic.name)
                for each in topic.partitions if _is_wanted(topic.name, self._topics) else ():
                    key = TopicPartition(topic.name, each.partition)
                    if each.error:
                        raise BrokerError(each.error, str(key))
                    there = Bounds(each.log_start_offset, each.high_watermark)
                    found[key] = there
                    count = max(there.end - there.earliest, 1)
                    self._record_bytes[key] = max(each.size_bytes / count, 1.0)
        return found

    def pieces(
        self, partition: TopicPartition, start: int, end: int, size_bytes: int
    ) -> list[Piece]:
        step = max(int(size_bytes / self._record_bytes[partition]), 1)
        cuts = [*range(start, end, step), end]
        return [Piece(partition, begin, stop) for begin, stop in pairwise(cuts)]

    def batches(self, piece: Piece, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        (topic, partition), offset = piece.partition, piece.start
        with Client(self._address) as client:
            while offset < piece.end:
                try:
                    answer = client.fetch_batches(topic, partition, offset, max_bytes=FETCH_BYTES)
                except BrokerError as error:
                    if error.number != ErrorCode.OFFSET_OUT_OF_RANGE:
                        raise
                    raise DataLossError(
                        f"offsets {offset} to {piece.end - 1} of {piece.partition} are gone: "
                        "retention has deleted them"
                    ) from error
                if answer.next_offset == offset:  # below the high watermark there is an answer
                    raise DataLossError(
                        f"{piece.partition} ends at offset {offset} now; offsets up to "
                        f"{piece.end - 1} were there"
                    )
                batch, offset = decode_batches(
                    answer.data,
                    topic=topic,
                    partition=partition,
                    options=options,
                    start_offset=offset,
                    end_offset=piece.end,
                    where=f"{piece.partition} of {self._address}",
                )
                offset = max(offset, answer.next_offset)
                if batch is not None:
                    yield batch


def _is_wanted(topic: str, topics: Sequence[str] | None) -> bool:
    return not topic.startswith(INTERNAL_PREFIX) if topics is None else topic in topics
